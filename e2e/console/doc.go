// Package console has the tests of the console of the admin listener. They use the page with a
// headless Chromium and check what people would see.
//
//	go test ./console -screenshots <folder>   keep the pictures that the tests take
package console
