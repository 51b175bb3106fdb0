// Package changes keeps what requests did, in steps of ten seconds, and finds what has changed.
//
// A [Store] counts requests by who made them, what they called and how they ended. It has a bounded
// size. [Store.Read] returns its history, and [Find] looks for changes in it.
package changes
