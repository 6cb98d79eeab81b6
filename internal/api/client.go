// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// Client asks the API of an instance.
type Client struct {
	name string
	http http.Client
}

// NewClient asks the instance of that name.
func NewClient(stateDir, name string) *Client {
	path := SocketPath(stateDir, name)
	return &Client{name: name, http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}}}
}

// Do sends body, if there is one, and reads the answer into to.
func (c *Client) Do(ctx context.Context, method, path string, body, to any) error {
	r, err := c.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer r.Close()
	if to == nil {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	return json.NewDecoder(r).Decode(to)
}

// Status reads /v1/status into to and returns when the packet path was read.
func (c *Client) Status(ctx context.Context, to any) (at time.Time, err error) {
	r, err := c.ask(ctx, http.MethodGet, "/v1/status", nil)
	if err != nil {
		return at, err
	}
	defer r.Body.Close()
	ns, err := strconv.ParseInt(r.Header.Get(ReadAt), 10, 64)
	if err != nil {
		return at, fmt.Errorf("instance %q does not say when its status was read; it runs an older version: restart it", c.name)
	}
	return time.Unix(0, ns), json.NewDecoder(r.Body).Decode(to)
}

// Lines calls take with each line of an answer.
func (c *Client) Lines(ctx context.Context, path string, take func(json.RawMessage) error) error {
	r, err := c.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	for d := json.NewDecoder(r); ; {
		var line json.RawMessage
		if err := d.Decode(&line); errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		} else if err != nil {
			return fmt.Errorf("instance %q has ended the answer: %w", c.name, err)
		}
		if err := take(line); err != nil {
			return err
		}
	}
}

func (c *Client) open(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	r, err := c.ask(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	return r.Body, nil
}

func (c *Client) ask(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://tidegate"+path, in)
	if err != nil {
		return nil, err
	}
	r, err := c.http.Do(req)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no process of instance %q runs here; start it, or name another with --instance", c.name)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the API of instance %q is for root and the group %s: %w", c.name, Group, syscall.EACCES)
	case err != nil:
		return nil, err
	}
	if r.StatusCode/100 == 2 {
		return r, nil
	}
	defer r.Body.Close()
	var answer struct{ Error string }
	if err := json.NewDecoder(io.LimitReader(r.Body, bodyMax)).Decode(&answer); err != nil || answer.Error == "" {
		return nil, errors.New(r.Status)
	}
	return nil, errors.New(answer.Error)
}
