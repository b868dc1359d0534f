package cli

import (
	"github.com/spf13/cobra"
)

// New makes the root command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "moldau",
		Short: "A Kafka cluster node in one binary",
		Long: `moldau speaks Kafka's protocol and writes Kafka's files.

To try it:  moldau server
It formats ./moldau-data, listens on localhost:9092 and serves any Kafka client.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(newServer(), newStorage(), NewBench())
	return root
}
