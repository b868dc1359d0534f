package raftwire_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/raftwire"
	"moldau/internal/wire"
)

// frame is one recorded message between Kafka's replicas: body without header.
type frame struct {
	request      bool
	key, version int16
	body         []byte
}

// recorded reads testdata/frames.txt.gz: "> key version hex" for requests,
// "< key version hex" for answers, what the three controllers and the brokers
// of an Apache Kafka 4.4 cluster said to each other about the metadata log.
func recorded(t testing.TB) []frame {
	f, err := os.Open("testdata/frames.txt.gz")
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	var out []frame
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		w := strings.Fields(sc.Text())
		key, _ := strconv.Atoi(w[1])
		version, _ := strconv.Atoi(w[2])
		raw, err := hex.DecodeString(w[3])
		must(t, err)
		fr := frame{request: w[0] == ">", key: int16(key), version: int16(version)}
		req := kmsg.RequestForKey(fr.key)
		req.SetVersion(fr.version)
		if fr.request {
			_, fr.body, err = wire.ParseHeader(raw, func(int16, int16) bool { return req.IsFlexible() })
			must(t, err)
		} else {
			fr.body = raw[4:]
			if req.IsFlexible() && fr.key != raftwire.KeyApiVersions {
				fr.body = fr.body[1:]
			}
		}
		out = append(out, fr)
	}
	must(t, sc.Err())
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Every frame that Kafka's replicas exchanged goes through a raft body and
// comes back as the same bytes. Fails if a field is dropped, or a tagged field
// is written where Kafka leaves it out.
func TestRecordedFramesRoundTrip(t *testing.T) {
	c := raftwire.Codec{Listener: "CONTROLLER"}
	count := map[int16]int{}
	for i, f := range recorded(t) {
		if f.key == raftwire.KeyApiVersions {
			continue // its answer is read for one feature only
		}
		req := kmsg.RequestForKey(f.key)
		req.SetVersion(f.version)
		var again []byte
		if f.request {
			must(t, req.ReadFrom(f.body))
			body, refusal := c.ParseRequest(req)
			if refusal != nil {
				t.Fatalf("frame %d is refused: %+v", i, refusal)
			}
			back, err := c.Request(body, f.version)
			must(t, err)
			again = back.AppendTo(nil)
		} else {
			resp := req.ResponseKind()
			resp.SetVersion(f.version)
			must(t, resp.ReadFrom(f.body))
			body, err := c.ParseResponse(resp)
			if err != nil {
				t.Fatalf("frame %d: %v", i, err)
			}
			again = c.Response(body, f.version).AppendTo(nil)
		}
		if !bytes.Equal(again, f.body) {
			t.Errorf("frame %d, API %d version %d:\nkafka % x\nours  % x", i, f.key, f.version, f.body, again)
		}
		count[f.key]++
	}
	for key, least := range map[int16]int{1: 2000, 52: 10, 53: 3, 59: 2, 81: 2} {
		if count[key] < least {
			t.Errorf("only %d frames of API %d were tried", count[key], key)
		}
	}
}

// Kafka's own ApiVersions answers tell kraft.version 0 to 1.
func TestRecordedRangeOfKRaftVersion(t *testing.T) {
	n := 0
	for _, f := range recorded(t) {
		if f.key != raftwire.KeyApiVersions || f.request {
			continue
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.SetVersion(f.version)
		must(t, resp.ReadFrom(f.body))
		body, err := raftwire.Codec{}.ParseResponse(resp)
		must(t, err)
		if got := features(body); got != [3]int{0, 0, 1} {
			t.Errorf("error, minimum, maximum: %v", got)
		}
		n++
	}
	if n == 0 {
		t.Error("none recorded")
	}
}
