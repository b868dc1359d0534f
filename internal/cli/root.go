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
	root.AddCommand(newServer(), newStorage(), newCluster(), newQuorum(), newMetadata(), NewBench())
	return root
}

// help is what a command does that only has subcommands. With it and
// cobra.NoArgs a subcommand that does not exist is an error.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }
