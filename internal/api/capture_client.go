// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// captureLast is what the instance has to send what it has captured once it is asked to end.
const captureLast = 5 * time.Second

// Capture opens a capture; the caller closes it. When ctx ends, the instance is asked to end it: then the answer ends where a packet
// does, and has its trailers. If the instance does not, the answer is cut off after five seconds, wherever it is.
func (c *Client) Capture(ctx context.Context, query url.Values) (*http.Response, error) {
	asking, cut := context.WithCancel(context.WithoutCancel(ctx))
	early := context.AfterFunc(ctx, cut)
	r, err := c.ask(asking, http.MethodGet, "/v1/capture?"+query.Encode(), nil)
	early()
	if err != nil {
		cut()
		if ctx.Err() != nil {
			err = errors.New("ended before the capture had begun")
		}
		return nil, err
	}
	r.Body = cutBody{r.Body, cut}
	context.AfterFunc(ctx, func() {
		late := time.AfterFunc(captureLast, cut)
		if err := c.Do(asking, http.MethodDelete, "/v1/capture/"+r.Header.Get(CaptureNumber), nil, nil); err != nil {
			late.Stop()
			cut()
		}
	})
	return r, nil
}

type cutBody struct {
	io.ReadCloser
	cut context.CancelFunc
}

func (b cutBody) Close() error {
	b.cut()
	return b.ReadCloser.Close()
}
