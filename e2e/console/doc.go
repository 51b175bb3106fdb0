// Package console holds the tests of the console of the admin listener: they drive the
// page with a headless Chromium and look at what people would see.
//
//	go test ./console -screenshots <folder>   keep the pictures that the tests take
package console
