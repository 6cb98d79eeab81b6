// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A node uses no more of the servers than it is given in docs/fleet.md: a request for the newest desired state, the subject on which the
// servers repeat each stored one, and the subject of its own report. It makes no consumer: whoever may make one may have the servers deliver
// to any subject of the account.

const (
	storedSubject = "tidegate.desired" // where the servers repeat a desired state that is stored
	newestSubject = "tidegate.newest"  // where they answer for the newest, to nodes with accounts of their own
	newestDirect  = "$JS.API.STREAM.MSG.GET.KV_" + DesiredBucket
)

func streamOf(bucket string) string       { return "KV_" + bucket }
func subjectOf(bucket, key string) string { return "$KV." + bucket + "." + key }

// entry is a value of the desired state's key.
type entry struct {
	number  uint64
	value   []byte
	deleted bool
}

// link is a node's connection.
type link struct {
	conn *nats.Conn
	node string
}

// serverTime is how long a node waits for an answer.
const serverTime = 5 * time.Second

// apiError is an error in an answer of JetStream.
type apiError struct {
	Code        int    `json:"code"`
	ErrorCode   int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s (%d)", e.Description, e.ErrorCode)
}

func (l *link) ask(ctx context.Context, subject string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	m, err := l.conn.RequestWithContext(ctx, subject, body)
	if err != nil {
		return explain(err)
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return fmt.Errorf("%s: the answer is none of JetStream: %w", subject, err)
	}
	return nil
}

// newest asks for the newest desired state; nil if there is none yet.
func (l *link) newest(ctx context.Context) (*entry, error) {
	body, err := json.Marshal(map[string]string{"last_by_subj": subjectOf(DesiredBucket, desiredKey)})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Number uint64 `json:"seq"`
			Header []byte `json:"hdrs"`
			Value  []byte `json:"data"`
		} `json:"message"`
	}
	err = l.ask(ctx, newestSubject, body, &answer)
	if errors.Is(err, nats.ErrNoResponders) { // nodes share the operator's account
		err = l.ask(ctx, newestDirect, body, &answer)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == int(jetstream.JSErrCodeMessageNotFound):
		return nil, nil
	case answer.Error != nil && answer.Error.ErrorCode == int(jetstream.JSErrCodeStreamNotFound):
		return nil, explain(jetstream.ErrBucketNotFound)
	case answer.Error != nil:
		return nil, answer.Error
	case answer.Message == nil:
		return nil, errors.New("the servers' answer has no desired state")
	}
	e := &entry{number: answer.Message.Number, value: answer.Message.Value}
	if len(answer.Message.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(answer.Message.Header)
		if err != nil {
			return nil, fmt.Errorf("the header of the desired state: %w", err)
		}
		e.deleted = header.Get("KV-Operation") != ""
	}
	return e, nil
}

// repeated is a desired state that the servers have stored.
func repeated(m *nats.Msg) (*entry, error) {
	n, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: a message that no stream has stored", storedSubject)
	}
	return &entry{number: n, value: m.Data, deleted: m.Header.Get("KV-Operation") != ""}, nil
}

// report stores the node's report.
func (l *link) report(ctx context.Context, value []byte) error {
	if err := l.store(ctx, subjectOf(NodesBucket, l.node), value); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// store gives a stream a message, and waits until it is stored.
func (l *link) store(ctx context.Context, subject string, value []byte) error {
	var answer struct {
		Error *apiError `json:"error"`
	}
	if err := l.ask(ctx, subject, value, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}
