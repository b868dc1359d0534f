package logdir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// CleanShutdownFile marks a log directory whose logs were all closed cleanly.
const CleanShutdownFile = ".kafka_cleanshutdown"

// TakeCleanShutdown reads the marker and removes it, durably, before any log is
// touched: a crash while the logs load must not leave it for the next start
// (HC-119, KAFKA-10471). clean is false if there was none. The broker epoch is
// that of the last run, which the registration reports for ELR (KIP-966), or
// NoBrokerEpoch.
func TakeCleanShutdown(fsys vfs.FS, dir string) (clean bool, epoch kafka.BrokerEpoch, err error) {
	name := dir + "/" + CleanShutdownFile
	data, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, kafka.NoBrokerEpoch, nil
	}
	if err != nil {
		return false, kafka.NoBrokerEpoch, err
	}
	if err := fsys.Remove(name); err != nil {
		return false, kafka.NoBrokerEpoch, err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return false, kafka.NoBrokerEpoch, err
	}
	return true, parseCleanShutdown(data), nil
}

// parseCleanShutdown is lenient as Kafka: the marker counts by being there.
func parseCleanShutdown(data []byte) kafka.BrokerEpoch {
	var content struct {
		Version     int    `json:"version"`
		BrokerEpoch *int64 `json:"brokerEpoch"`
	}
	if json.Unmarshal(data, &content) != nil || content.BrokerEpoch == nil {
		return kafka.NoBrokerEpoch
	}
	return kafka.BrokerEpoch(*content.BrokerEpoch)
}

// WriteCleanShutdown writes the marker: the last thing that is done to a log
// directory, after all its logs were closed without an error and the checkpoints
// were written.
func WriteCleanShutdown(fsys vfs.FS, dir string, epoch kafka.BrokerEpoch) error {
	data := []byte(`{"version":0,"brokerEpoch":` + strconv.FormatInt(int64(epoch), 10) + `}`)
	return vfs.WriteFileAtomic(fsys, dir+"/"+CleanShutdownFile, data)
}
