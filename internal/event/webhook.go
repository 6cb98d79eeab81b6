// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/internal/version"
)

// Webhook posts each event as JSON. The header Idempotency-Key is the event's ID, by which a receiver detects
// duplicates, sent when an answer was lost.
type Webhook struct {
	url    string
	client http.Client
}

const (
	webhookTime  = 10 * time.Second
	webhookBytes = 4 << 10 // of an answer
)

// NewWebhook posts to an address. Redirects are not followed: they would take events elsewhere.
func NewWebhook(address string) *Webhook {
	return &Webhook{url: address, client: http.Client{Timeout: webhookTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Name is the taker's name. The rest of the address may hold a secret, and names are logged.
func (w *Webhook) Name() string {
	host, sum := "", sha256.Sum256([]byte(w.url))
	if u, err := url.Parse(w.url); err == nil {
		host = u.Host
	}
	return fmt.Sprintf("webhook %s %x", host, sum[:4])
}

// Take posts it. 2xx: taken; 408, 429 and 5xx: retried; all other answers are final.
func (w *Webhook) Take(ctx context.Context, e Event) error {
	body, err := json.Marshal(&e)
	if err != nil {
		return errors.Join(errNever, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return errors.Join(errNever, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", e.ID)
	req.Header.Set("User-Agent", "tidegate/"+version.Version)
	r, err := w.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) { // its text contains the address
			err = u.Err
		}
		return err
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, webhookBytes)) // so that the connection is reused
	switch {
	case r.StatusCode/100 == 2:
		return nil
	case r.StatusCode == http.StatusRequestTimeout || r.StatusCode == http.StatusTooManyRequests || r.StatusCode >= 500:
		seconds, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		return after{fmt.Errorf("%s", r.Status), time.Duration(min(max(seconds, 0), 3600)) * time.Second}
	}
	return fmt.Errorf("%w: %s", errNever, r.Status)
}
