// Package chaos is a black-box suite against clusters of real moldau processes:
// three controllers and three brokers on this machine, killed, paused,
// restarted, replaced, and cut off from each other, while a client creates
// topics at full speed. Whatever was acknowledged must be there in the end.
//
// KILLS says how often the active controller is killed (default 8).
// Tests that cut networks need the right to make network namespaces; they say
// so and skip without it.
package chaos
