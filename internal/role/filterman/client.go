// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"tidegate/internal/upstream"
)

// Client uses the API of a filter manager.
type Client struct {
	http *http.Client
	at   string
}

// NewClient uses the socket at path.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &Client{&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, path}
}

// NewRemoteClient uses the API of a filter manager on another machine, KEY@ADDRESS:PORT, as one of its detectors.
func NewRemoteClient(at string, id *upstream.Identity) (*Client, error) {
	peer, err := upstream.ParsePeer(at)
	if err != nil {
		return nil, err
	}
	connect, err := id.Dialer(peer)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) }
	return &Client{&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, peer.Addr.String()}, nil
}

func (c *Client) call(ctx context.Context, method, where string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://filter-manager"+where, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("no filter manager answers at %s: %w; start one with `tidegate run -c FILE`, or name where it listens with --api", c.at, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var e struct{ Error string }
		if json.NewDecoder(resp.Body).Decode(&e) != nil || e.Error == "" {
			e.Error = resp.Status
		}
		return fmt.Errorf("the filter manager says: %s", e.Error)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// Add asks for filters and waits for the border managers.
func (c *Client) Add(ctx context.Context, list []Request) (v []Verdict, err error) {
	return v, c.call(ctx, http.MethodPost, "/v1/filters?wait=1", list, &v)
}

// List returns the filters that were requested.
func (c *Client) List(ctx context.Context) (list []Entry, err error) {
	return list, c.call(ctx, http.MethodGet, "/v1/filters", nil, &list)
}

// Remove removes a filter.
func (c *Client) Remove(ctx context.Context, src, dst netip.Prefix) error {
	q := url.Values{"src": {src.String()}, "dst": {dst.String()}}
	var out map[string]string
	return c.call(ctx, http.MethodDelete, "/v1/filters?"+q.Encode(), nil, &out)
}
