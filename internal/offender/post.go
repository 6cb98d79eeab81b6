// SPDX-License-Identifier: Apache-2.0

package offender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"tidegate/internal/config"
	"tidegate/internal/upstream"
)

// verdict is what became of one report, as the API answers.
type verdict struct {
	State string `json:"state"`
	Error string `json:"error"`
}

// dialer connects to a filter manager: to its socket, or by mutual TLS to one on another machine.
func dialer(to config.ReportTo) (func(context.Context) (net.Conn, error), error) {
	if !upstream.IsPeer(to.API) {
		return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", to.API) }, nil
	}
	id, err := upstream.LoadIdentity(to.Identity)
	if err != nil {
		return nil, fmt.Errorf("report_to.identity_file: %w", err)
	}
	peer, err := upstream.ParsePeer(to.API)
	if err != nil {
		return nil, fmt.Errorf("report_to.api: %w", err)
	}
	return id.Dialer(peer)
}

// post sends reports to a filter manager and waits for its verdicts.
func post(ctx context.Context, to config.ReportTo, list []Report) ([]verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	body, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	connect, err := dialer(to)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) }
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://filter-manager/v1/filters?wait=1", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no filter manager answers at %s (report_to.api): %w; start one with `tidegate run -c FILE`", to.API, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the filter manager at %s says: %s", to.API, resp.Status)
	}
	var answer []verdict
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer) != len(list) {
		return nil, errAnswer
	}
	return answer, nil
}
