package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/peer"
	"moldau/internal/raft"
	"moldau/internal/raftwire"
)

// clientTimeout bounds each request of the admin commands.
const clientTimeout = 15 * time.Second

// clusterFlags say which cluster a command is for, with the names of Kafka's
// own tools.
type clusterFlags struct{ servers, controllers []string }

func addClusterFlags(cmd *cobra.Command) *clusterFlags {
	f := &clusterFlags{}
	cmd.Flags().StringSliceVar(&f.servers, "bootstrap-server", []string{"localhost:9092"}, "`addresses` of brokers, host:port")
	cmd.Flags().StringSliceVar(&f.controllers, "bootstrap-controller", nil, "`addresses` of controllers to ask instead")
	cmd.MarkFlagsMutuallyExclusive("bootstrap-server", "bootstrap-controller")
	return f
}

// with runs f with a client and closes it.
func (f *clusterFlags) with(run func(*clusterClient) error) error {
	c := &clusterClient{flags: f, pool: peer.New(peer.Options{ClientID: "moldau-cli", RequestTimeout: clientTimeout, ConnectTimeout: 5 * time.Second})}
	defer c.pool.Close()
	return run(c)
}

// clusterClient sends single requests. A broker passes on what concerns
// controllers; of controllers the active one is asked.
type clusterClient struct {
	flags *clusterFlags
	pool  *peer.Pool
	ids   map[string]kafka.NodeID
}

// call sends a request to an address and waits for the answer.
func (c *clusterClient) call(address string, r peer.Request) (kmsg.Response, error) {
	type outcome struct {
		resp kmsg.Response
		err  error
	}
	done := make(chan outcome, 1)
	r.Done = func(resp kmsg.Response, err error) { done <- outcome{resp, err} }
	if c.ids == nil {
		c.ids = map[string]kafka.NodeID{}
	}
	if _, known := c.ids[address]; !known {
		c.ids[address] = kafka.NodeID(len(c.ids))
	}
	c.pool.Send(peer.Node{ID: c.ids[address], Address: address}, r)
	o := <-done
	if o.err != nil {
		return nil, fmt.Errorf("%s: %w", address, o.err)
	}
	return o.resp, nil
}

// ask sends a request to the first broker that answers, or to the active
// controller.
func (c *clusterClient) ask(req kmsg.Request) (kmsg.Response, error) {
	var errs []error
	for _, a := range c.flags.servers {
		if len(c.flags.controllers) > 0 {
			break
		}
		resp, err := c.call(a, peer.Message(req, clientTimeout, nil))
		if err == nil {
			return resp, nil
		}
		errs = append(errs, err)
	}
	for _, a := range c.flags.controllers {
		active, err := c.activeController(a)
		if err == nil {
			var resp kmsg.Response
			if resp, err = c.call(active, peer.Message(req, clientTimeout, nil)); err == nil {
				return resp, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// activeController asks a controller who is the active one (KIP-919).
func (c *clusterClient) activeController(address string) (string, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 2
	m := peer.Message(req, clientTimeout, nil)
	m.Min = 1
	resp, err := c.call(address, m)
	if err != nil {
		return "", err
	}
	r := resp.(*kmsg.DescribeClusterResponse)
	if r.ErrorCode != 0 {
		return "", fmt.Errorf("%s: %w", address, codeError("DescribeCluster", r.ErrorCode, r.ErrorMessage))
	}
	for _, n := range r.Brokers {
		if n.NodeID == r.ControllerID {
			return net.JoinHostPort(n.Host, fmt.Sprint(n.Port)), nil
		}
	}
	return "", fmt.Errorf("%s knows of no active controller", address)
}

// sendTo sends a message between replicas to a voter.
func (c *clusterClient) sendTo(address string, codec raftwire.Codec, body raft.Body) error {
	v, err := raftwire.VersionsOf(body)
	if err != nil {
		return err
	}
	resp, err := c.call(address, peer.Request{
		Key: v.Key, Min: v.Min, Max: v.Max, Timeout: clientTimeout,
		Body: func(version int16) (kmsg.Request, error) { return codec.Request(body, version) },
	})
	if err != nil {
		return err
	}
	answer, err := codec.ParseResponse(resp)
	if err != nil {
		return err
	}
	if a, ok := answer.(*raft.EndQuorumEpochResponse); ok {
		if code := cmp.Or(a.TopError, a.Error); code != 0 && code != kafka.ErrFencedLeaderEpoch {
			return errors.New(code.String())
		}
	}
	return nil
}

// codeError makes an error of a code that a server has answered.
func codeError(what string, code int16, message *string) error {
	text := kafka.ErrorCode(code).String()
	if message != nil && *message != "" {
		text += ": " + *message
	}
	return fmt.Errorf("%s: %s", what, text)
}
