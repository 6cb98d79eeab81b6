// SPDX-License-Identifier: Apache-2.0

package offender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
)

// verdict is what became of one report, as the API answers.
type verdict struct {
	State string `json:"state"`
	Error string `json:"error"`
}

// post sends reports to the socket of a filter manager and waits for its verdicts.
func post(ctx context.Context, path string, list []Report) ([]verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	body, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://filter-manager/v1/filters?wait=1", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no filter manager answers at %s (report_to.api): %w; start one with `tidegate run -c FILE`", path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the filter manager at %s says: %s", path, resp.Status)
	}
	var answer []verdict
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer) != len(list) {
		return nil, errAnswer
	}
	return answer, nil
}
