package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// MetaPropertiesFile identifies a log directory.
const MetaPropertiesFile = "meta.properties"

// MetaProperties is the content of meta.properties, version 1.
type MetaProperties struct {
	ClusterID string
	NodeID    kafka.NodeID
	// DirectoryID is zero if the file has none, as before Kafka 3.7.
	DirectoryID kafka.DirectoryID
}

// ErrVersion says that a file has a version that we do not know.
var ErrVersion = errors.New("unknown version")

// ReadMetaProperties reads a log directory's meta.properties. fs.ErrNotExist if
// the directory is not formatted.
func ReadMetaProperties(fsys vfs.FS, dir string) (MetaProperties, error) {
	name := dir + "/" + MetaPropertiesFile
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return MetaProperties{}, err
	}
	m, err := ParseMetaProperties(data)
	if err != nil {
		return MetaProperties{}, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// ParseMetaProperties reads the content of meta.properties.
func ParseMetaProperties(data []byte) (m MetaProperties, err error) {
	props, err := parseProperties(string(data))
	if err != nil {
		return m, err
	}
	switch v := props["version"]; v {
	case "1":
	case "":
		return m, fmt.Errorf("%w: no version", ErrCorrupt)
	default:
		return m, fmt.Errorf("%w %.20q, want 1", ErrVersion, v)
	}
	if m.ClusterID = props["cluster.id"]; m.ClusterID == "" {
		return m, fmt.Errorf("%w: no cluster.id", ErrCorrupt)
	}
	id, err := strconv.ParseInt(props["node.id"], 10, 32)
	if err != nil || id < 0 {
		return m, fmt.Errorf("%w: node.id %.20q", ErrCorrupt, props["node.id"])
	}
	m.NodeID = kafka.NodeID(id)
	if d := props["directory.id"]; d != "" {
		u, err := kafka.ParseUUID(d)
		if err != nil {
			return m, fmt.Errorf("%w: directory.id: %w", ErrCorrupt, err)
		}
		m.DirectoryID = kafka.DirectoryID(u)
	}
	return m, nil
}

// Append appends the file's content as java.util.Properties writes it; the
// time goes into a comment.
func (m MetaProperties) Append(buf []byte, now time.Time) []byte {
	buf = append(buf, "#\n#"...)
	buf = now.AppendFormat(buf, "Mon Jan 02 15:04:05 MST 2006")
	buf = append(buf, "\ncluster.id="...)
	buf = append(buf, escapeProperty(m.ClusterID)...)
	if m.DirectoryID != (kafka.DirectoryID{}) {
		buf = append(buf, "\ndirectory.id="...)
		buf = append(buf, m.DirectoryID.String()...)
	}
	buf = append(buf, "\nnode.id="...)
	buf = strconv.AppendInt(buf, int64(m.NodeID), 10)
	return append(buf, "\nversion=1\n"...)
}

// WriteMetaProperties replaces the file.
func WriteMetaProperties(fsys vfs.FS, dir string, m MetaProperties, now time.Time) error {
	return vfs.WriteFileAtomic(fsys, dir+"/"+MetaPropertiesFile, m.Append(nil, now))
}

// parseProperties reads Java's properties format.
func parseProperties(text string) (map[string]string, error) {
	props := map[string]string{}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := 0; i < len(lines); i++ {
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for continues(line) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimLeft(lines[i], " \t\f")
		}
		key, value := splitProperty(line)
		k, err := unescape(key)
		if err != nil {
			return nil, err
		}
		if props[k], err = unescape(value); err != nil {
			return nil, err
		}
	}
	return props, nil
}

// continues tells whether a line ends in an odd number of backslashes.
func continues(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// splitProperty splits at the first separator that is not escaped: '=', ':' or
// white space, with white space around.
func splitProperty(line string) (key, value string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte("=: \t\f", line[i]) >= 0 {
			end = i
			break
		}
	}
	value = strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return line[:end], value
}

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var units []uint16
	var out strings.Builder
	flush := func() {
		out.WriteString(string(utf16.Decode(units)))
		units = units[:0]
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			flush()
			if s[i] != '\\' {
				out.WriteByte(s[i])
			}
			continue
		}
		i++
		if s[i] == 'u' {
			if i+5 > len(s) {
				return "", fmt.Errorf("%w: escape %.20q", ErrCorrupt, s[i-1:])
			}
			u, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", fmt.Errorf("%w: escape %.20q", ErrCorrupt, s[i-1:])
			}
			units = append(units, uint16(u))
			i += 4
			continue
		}
		flush()
		if j := strings.IndexByte("tnrf", s[i]); j >= 0 {
			out.WriteByte("\t\n\r\f"[j])
		} else {
			out.WriteByte(s[i])
		}
	}
	flush()
	return out.String(), nil
}

func escapeProperty(s string) string {
	var out strings.Builder
	for i, r := range s {
		switch {
		case r == ' ' && i == 0, r == '\\', r == '=', r == ':', r == '#', r == '!':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r < 0x20 || r > 0x7e:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&out, `\u%04X`, u)
			}
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// PartitionMetadataFile tells which topic a log belongs to.
const PartitionMetadataFile = "partition.metadata"

// ReadPartitionMetadata reads the topic id of a log. ok is false if the file is
// missing (HC-123: it may be after a crash; a log without a certain id is stray,
// not a reason not to start) or has no id.
func ReadPartitionMetadata(fsys vfs.FS, logDir string) (id kafka.TopicID, ok bool, err error) {
	name := logDir + "/" + PartitionMetadataFile
	data, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return id, false, nil
	}
	if err != nil {
		return id, false, err
	}
	if id, err = ParsePartitionMetadata(data); err != nil {
		return id, false, fmt.Errorf("%s: %w", name, err)
	}
	return id, !id.IsZero(), nil
}

// ParsePartitionMetadata reads the content of partition.metadata.
func ParsePartitionMetadata(data []byte) (kafka.TopicID, error) {
	lines := strings.Split(strings.TrimRight(string(data), "\r\n"), "\n")
	if len(lines) != 2 {
		return kafka.TopicID{}, fmt.Errorf("%w: %d lines", ErrCorrupt, len(lines))
	}
	v, ok1 := strings.CutPrefix(strings.TrimRight(lines[0], "\r"), "version:")
	t, ok2 := strings.CutPrefix(lines[1], "topic_id:")
	if !ok1 || !ok2 {
		return kafka.TopicID{}, fmt.Errorf("%w: %.60q", ErrCorrupt, data)
	}
	if v = strings.TrimSpace(v); v != "0" {
		return kafka.TopicID{}, fmt.Errorf("%w %.20q", ErrVersion, v)
	}
	u, err := kafka.ParseUUID(strings.TrimSpace(t))
	if err != nil {
		return kafka.TopicID{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return kafka.TopicID(u), nil
}

// WritePartitionMetadata replaces the file, durably.
func WritePartitionMetadata(fsys vfs.FS, logDir string, id kafka.TopicID) error {
	return vfs.WriteFileAtomic(fsys, logDir+"/"+PartitionMetadataFile, []byte("version: 0\ntopic_id: "+id.String()))
}
