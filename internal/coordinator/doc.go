// Package coordinator is what the brain of a coordinator (of groups, and in
// time of transactions and share groups) and the shell that drives it say to
// each other: events in, records and replies out.
//
// A Core is a replicated state machine: it decides on an event at the tip of
// its log and emits records; only replaying records changes the state that the
// log keeps. Package statemachine is the shell: it appends, replays, waits for
// the commit and sends the replies.
//
// The package has types only.
package coordinator
