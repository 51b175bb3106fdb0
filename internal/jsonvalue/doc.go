// Package jsonvalue decodes JSON in a time that goes with its length, where json/v2 needs much more: numbers into floats, for
// which strconv takes 18 µs for the 6 bytes of 7e-320, lists of numbers, maps from strings, and values of type any. 4 MiB of such numbers,
// which one request may have, took 10 s. It also goes through texts that are known to be valid, without decoding them: [Members],
// [Member], [SkipValue].
//
// [Float] computes as strconv and others do ("Number Parsing at a Gigabyte per Second", D. Lemire, 2021), but for small
// values, too, and where 128 bits are not enough, it compares with the middle between the two next values, which is one multiplication.
package jsonvalue
