package kafka

import "testing"

func TestSequenceWraps(t *testing.T) {
	for _, c := range []struct {
		from Sequence
		n    int32
		want Sequence
	}{{0, 5, 5}, {2147483647, 1, 0}, {2147483645, 5, 2}, {2147483647, 0, 2147483647}} {
		if got := c.from.Add(c.n); got != c.want {
			t.Errorf("%d+%d = %d, want %d", c.from, c.n, got, c.want)
		}
	}
}

// Hashes printed by Java's String.hashCode.
func TestTrap8JavaHash(t *testing.T) {
	for s, want := range map[string]int32{
		"":                         0,
		"a":                        97,
		"test-group":               627841412,
		"grüppe":                   -1233264812,
		"𝄞":                        1772394,
		"polygenelubricants":       -2147483648,
		"console-consumer-12345-x": 1951887421,
	} {
		if got := JavaHash(s); got != want {
			t.Errorf("JavaHash(%q) = %d, want %d", s, got, want)
		}
	}
	if p := CoordinatorPartition("polygenelubricants", 50); p != 0 {
		t.Errorf("MIN_VALUE goes to partition %d, want 0", p)
	}
}

func TestUUIDText(t *testing.T) {
	u, err := ParseUUID("VeJdTdJ8Q_e9sssUmgvxOw==")
	if err != nil || u.String() != "VeJdTdJ8Q_e9sssUmgvxOw" {
		t.Fatal(u, err)
	}
	for _, bad := range []string{"", "VeJdTdJ8Q_e9sssUmgvxO", "VeJdTdJ8Q/e9sssUmgvxOw", "VeJdTdJ8Q_e9sssUmgvxOwAA"} {
		if _, err := ParseUUID(bad); err == nil {
			t.Errorf("ParseUUID(%q) took it", bad)
		}
	}
	if _, ok := NewUUID([16]byte{0: 0xf8}); ok {
		t.Error("an id that prints with a leading '-' was accepted")
	}
}

func TestErrorCodeNames(t *testing.T) {
	if s := ErrUnknownTopicOrPartition.String(); s != "UNKNOWN_TOPIC_OR_PARTITION" {
		t.Error(s)
	}
	if s := ErrorCode(9999).String(); s != "ErrorCode(9999)" {
		t.Error(s)
	}
}
