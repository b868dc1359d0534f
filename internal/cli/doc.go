// Package cli holds the commands of the moldau binary: flags, help, and the
// printing of results. The work is done by the packages they call.
//
// A constructor such as NewBench returns a new command each time; there are no
// package-level commands or flags. A command writes to the streams that cobra
// gives it and returns its error.
package cli
