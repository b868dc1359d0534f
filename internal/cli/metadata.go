package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quorum"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

func newMetadata() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metadata",
		Short: "Read a metadata log: its records, the state they make, what changed",
		Long: `Reads the metadata log in a log directory, moldau's or Apache Kafka's, beside a
node that runs or after one that has stopped. Nothing is changed. The last
records may not be committed yet; the files do not tell.`,
		Example: `  moldau metadata log --dir moldau-data --from 100
  moldau metadata image --dir moldau-data
  moldau metadata diff --dir moldau-data 120 150`,
		Args: cobra.NoArgs,
		RunE: help,
	}
	cmd.AddCommand(newMetadataLog(), newMetadataImage(), newMetadataDiff())
	return cmd
}

// metadataDir is the flag that all of them have.
func metadataDir(cmd *cobra.Command) *string {
	return cmd.Flags().String("dir", "moldau-data", "the `directory` that holds "+quorum.Folder)
}

func newMetadataLog() *cobra.Command {
	var from int64
	var snapshot string
	cmd := &cobra.Command{Use: "log", Short: "Print the records, one a line", Args: cobra.NoArgs}
	dir := metadataDir(cmd)
	cmd.Flags().Int64Var(&from, "from", 0, "first `offset`")
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "print this snapshot instead: `offset-epoch`, or latest")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := quorum.NewReader(vfs.OS{}, *dir)
		if err != nil {
			return err
		}
		if snapshot != "" {
			return printSnapshot(cmd.OutOrStdout(), r, snapshot)
		}
		return r.EachBatch(kafka.Offset(from), func(b batch.Batch) error {
			return printBatch(cmd.OutOrStdout(), b, kafka.Offset(from))
		})
	}
	return cmd
}

func printBatch(w io.Writer, b batch.Batch, from kafka.Offset) error {
	return b.EachRecord(func(rec *batch.Record) error {
		at := b.BaseOffset() + kafka.Offset(rec.OffsetDelta)
		if at < from {
			return nil
		}
		m, err := decodeRecord(b.Control(), rec)
		text := ""
		if err != nil {
			text = "cannot be read: " + err.Error()
		} else {
			text = recordText(m)
		}
		_, err = fmt.Fprintf(w, "%d epoch %d: %s\n", at, b.LeaderEpoch(), text)
		return err
	})
}

func decodeRecord(control bool, rec *batch.Record) (m record.Message, err error) {
	if control {
		_, m, _, err = record.DecodeControl(rec.Key, rec.Value)
	} else {
		m, _, err = record.DecodeMetadata(rec.Value)
	}
	return m, err
}

func printSnapshot(w io.Writer, r *quorum.Reader, which string) error {
	if len(r.Snapshots) == 0 {
		return errors.New("there is no snapshot")
	}
	id := r.Snapshots[len(r.Snapshots)-1]
	if which != "latest" {
		if _, err := fmt.Sscanf(which, "%d-%d", &id.Offset, &id.Epoch); err != nil {
			return fmt.Errorf("--snapshot %s is neither offset-epoch nor latest", which)
		}
	}
	fmt.Fprintf(w, "snapshot of all below offset %d, epoch %d\n", id.Offset, id.Epoch)
	return r.EachSnapshotRecord(id, func(m record.Message, _ int16) error {
		_, err := fmt.Fprintln(w, recordText(m))
		return err
	})
}

func newMetadataImage() *cobra.Command {
	var at int64
	cmd := &cobra.Command{Use: "image", Short: "Print the state at an offset", Args: cobra.NoArgs}
	dir := metadataDir(cmd)
	cmd.Flags().Int64Var(&at, "at", -1, "of all records below this `offset`; all by default")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := quorum.NewReader(vfs.OS{}, *dir)
		if err != nil {
			return err
		}
		img, err := r.Image(kafka.Offset(at))
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		fmt.Fprintln(w, imageTitle(img))
		for _, line := range changesInWords(metadata.Empty(), img) {
			fmt.Fprintln(w, line)
		}
		return nil
	}
	return cmd
}

func imageTitle(img *metadata.Image) string {
	p := img.Provenance()
	s := fmt.Sprintf("all below offset %d, epoch %d: %d brokers, %d topics, %d partitions", p.EndOffset, p.Epoch, img.NumBrokers(), img.NumTopics(), img.NumPartitions())
	if img.InTransaction() {
		s += "; inside a metadata transaction, which is not shown"
	}
	return s
}

func newMetadataDiff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff FROM TO",
		Short: "Tell in words what changed between two offsets",
		Long:  "Tells in words what the records from offset FROM up to, but not including, TO have changed.",
		Args:  cobra.ExactArgs(2),
	}
	dir := metadataDir(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := quorum.NewReader(vfs.OS{}, *dir)
		if err != nil {
			return err
		}
		var images [2]*metadata.Image
		for i, a := range args {
			at, err := strconv.ParseInt(a, 10, 64)
			if err != nil || at < 0 {
				return fmt.Errorf("%q is not an offset", a)
			}
			if images[i], err = r.Image(kafka.Offset(at)); err != nil {
				return err
			}
		}
		w := cmd.OutOrStdout()
		lines := changesInWords(images[0], images[1])
		if len(lines) == 0 {
			fmt.Fprintln(w, "nothing changed")
		}
		for _, line := range lines {
			fmt.Fprintln(w, line)
		}
		return nil
	}
	return cmd
}
