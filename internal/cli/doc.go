// Package cli is the command line: one constructor per command, no global
// flags, no state. Commands write what was asked for to standard output and
// everything else to standard error.
package cli
