// Package decimal reads the numbers of JSON in a time that goes with their length. strconv takes 18 µs for the 6 bytes of 7e-320,
// and for other numbers whose nearest float64 it does not find with 128 bits: 4 MiB of them, which one request may have, took 10 s.
//
// It computes as strconv and others do ("Number Parsing at a Gigabyte per Second", D. Lemire, 2021), but for small
// values, too, and where 128 bits are not enough, it compares with the middle between the two next values, which is one multiplication.
package decimal
