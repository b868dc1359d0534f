// Command moldau is a Kafka cluster node, its tools and its bench in one binary.
package main

import (
	"context"
	"fmt"
	"os"

	"moldau/internal/cli"
)

func main() {
	if err := cli.New().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "moldau: %v\n", err)
		os.Exit(1)
	}
}
