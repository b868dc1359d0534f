// Package archtest holds the house to its plan: which package may import
// which, what pure cores must not do, how large files and functions may grow,
// that every package says what it is for. It has tests only; they read the
// sources of the module and fail the build when a rule is broken.
package archtest
