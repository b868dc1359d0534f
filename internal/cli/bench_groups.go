package cli

import (
	"github.com/spf13/cobra"

	"moldau/internal/bench"
)

// newBenchCommits returns "moldau bench commits".
func newBenchCommits() *cobra.Command {
	var common benchFlags
	o := bench.DefaultCommitOptions()
	cmd := &cobra.Command{
		Use:   "commits",
		Short: "Commit offsets as fast as it goes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			o.Target = common.target()
			r, err := bench.Commits(cmd.Context(), o)
			if err != nil {
				return err
			}
			return common.print(cmd.OutOrStdout(), r)
		},
	}
	common.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.Topic.Name, "topic", o.Topic.Name, "`name` of the topic whose offsets are committed, created if missing")
	flags.IntVar(&o.Groups, "groups", o.Groups, "how many groups")
	flags.IntVar(&o.Connections, "connections", o.Connections, "how many connections share them")
	flags.IntVar(&o.PerRequest, "per-request", o.PerRequest, "partitions in a request")
	flags.IntVar(&o.Window, "window", o.Window, "requests under way on a connection")
	flags.DurationVar(&o.Duration, "duration", o.Duration, "how long")
	return cmd
}

// newBenchRebalances returns "moldau bench rebalances".
func newBenchRebalances() *cobra.Command {
	var common benchFlags
	o := bench.DefaultRebalanceOptions()
	cmd := &cobra.Command{
		Use:   "rebalances",
		Short: "Have groups form and rebalance",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			o.Target = common.target()
			r, err := bench.Rebalances(cmd.Context(), o)
			if err != nil {
				return err
			}
			return common.print(cmd.OutOrStdout(), r)
		},
	}
	common.add(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.Groups, "groups", o.Groups, "how many groups")
	flags.IntVar(&o.Members, "members", o.Members, "members of each group")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "how often all join again")
	return cmd
}
