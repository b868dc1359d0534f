// Package peer keeps connections to other nodes of the cluster and sends them
// requests of Kafka's protocol.
//
// A Pool serves one purpose (the metadata quorum; a broker's talk with the
// controller; later bulk data) and has one connection per node, so that one
// purpose never waits behind another. Send never blocks: it queues, and the
// outcome comes to the request's Done, exactly once, on a goroutine of the
// pool. A node that cannot be reached fails its requests at once; whoever sends
// decides about trying again. Controller does that for requests to whoever is
// the active controller.
//
// Of each connection: the address is resolved whenever it is opened (HC-053);
// ApiVersions tells which versions the node speaks, and a request goes out in
// the highest that both know; requests are pipelined up to a bound and answered
// in order; a request that is late ends the connection, for the answers behind
// it would be late too. When the other side ends a connection, or refuses one
// after an earlier one succeeded, Options.Lost hears of it before the requests
// fail. A node that has moved gets a connection to its new address.
//
// Everything is bounded: nodes of a pool, requests of a node, bytes of an
// answer, times. Pool.Close ends all goroutines and fails what waits.
package peer
