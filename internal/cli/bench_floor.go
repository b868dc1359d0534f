package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"moldau/internal/bench"
)

// newBenchFloor returns "moldau bench floor".
func newBenchFloor() *cobra.Command {
	o := bench.FloorOptions{Chunk: 1 << 20, Bytes: 1 << 30, Passes: 3, Dir: os.TempDir()}
	var asJSON bool
	var serve string
	cmd := &cobra.Command{
		Use:   "floor",
		Short: "Measure what the same bytes cost this machine with no broker",
		Long: `Measure what bytes cost this machine with no broker in between: in, from a socket
through CRC-32C to a file; out, from the file to a socket, by sendfile and by
read and write. A child process does the serving and only its CPU counts.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			if serve != "" {
				return bench.FloorServe(cmd.Context(), bench.FloorMode(serve), o, cmd.InOrStdin(), cmd.OutOrStdout())
			}
			var err error
			if o.Serve, err = floorChild(cmd); err != nil {
				return err
			}
			results, err := bench.Floor(cmd.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"floor": results})
			}
			bench.WriteFloor(cmd.OutOrStdout(), results)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.Var((*sizeFlag)(&o.Chunk), "chunk", "bytes handled at a time, as a broker does one batch")
	flags.Var((*sizeFlag)(&o.Bytes), "bytes", "bytes moved in one pass")
	flags.IntVar(&o.Passes, "passes", o.Passes, "passes that count, after one that does not")
	flags.StringVar(&o.Dir, "dir", o.Dir, "`folder` for the file, on the disk of interest")
	flags.StringVar(&serve, "serve", "", "run the serving half in this `mode`")
	if err := flags.MarkHidden("serve"); err != nil {
		panic(err) // the flag was just defined
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// floorChild is the command line that runs this very command again: this binary
// with the names of the command and its parents.
func floorChild(cmd *cobra.Command) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program to run it again: %w", err)
	}
	var names []string
	for c := cmd; c.HasParent(); c = c.Parent() {
		names = append([]string{c.Name()}, names...)
	}
	if len(names) == 0 {
		return nil, errors.New("bench floor is not mounted below a root command")
	}
	return append([]string{self}, names...), nil
}
