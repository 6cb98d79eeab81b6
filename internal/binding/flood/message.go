// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"tidegate/internal/binding"
	"tidegate/internal/binding/store"
)

// MaxMessage bounds one message, in bytes.
const MaxMessage = 128 << 10

// Bounds of one request, so that its answer fits into MaxMessage.
const (
	maxNodes    = 16 // hashes below 16 nodes are 32 KiB
	maxLeaves   = 64
	maxEntries  = 60 << 10 // bytes of entries in one answer
	maxWants    = 64       // records in one request
	maxAnswer   = 64 << 10 // bytes of records in one answer; at least one record is sent
	maxPush     = 16       // records in one push
	maxByeText  = 200
	wantLen     = 16 + 16 // slot, digest
	summaryLen  = store.Trees * len(store.Hash{})
	maxElements = 256
)

// Kind is the type of a message. The numbers are those of docs/bindings.md.
type Kind uint8

const (
	Summary    Kind = 1 // the roots of the sender's trees
	GetNodes   Kind = 2
	Nodes      Kind = 3
	GetEntries Kind = 4
	Entries    Kind = 5
	GetRecords Kind = 6
	Records    Kind = 7
	Push       Kind = 8 // records that are new
	Bye        Kind = 9 // why the sender closes the connection
)

// envelope is every message: [type, request number, body]. An answer has the
// number of its request; what is neither has 0.
type envelope struct {
	_    struct{} `cbor:",toarray"`
	Kind Kind
	ID   uint32
	Body cbor.RawMessage
}

type getNodesBody struct {
	_     struct{} `cbor:",toarray"`
	Tree  uint8
	Nodes []uint16 // 0 is the root, n the n-th node below it
}

type getEntriesBody struct {
	_      struct{} `cbor:",toarray"`
	Tree   uint8
	Leaves []uint16
	After  []byte // of the first leaf only slots after this one; empty: all
}

type entriesBody struct {
	_     struct{} `cbor:",toarray"`
	Lists [][]byte // of the leaves asked for, in their order; the last ones may be missing
	More  bool     // the last list is not complete
}

type getRecordsBody struct {
	_     struct{} `cbor:",toarray"`
	Tree  uint8
	Wants []byte // slot and digest of each
}

type byeBody struct {
	_    struct{} `cbor:",toarray"`
	Code Reason
	Text string
}

var (
	encMode = mustMode(cbor.CoreDetEncOptions().EncMode())
	decMode = mustMode(cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
		MaxNestedLevels:  4,
		MaxArrayElements: maxElements,
		MaxMapPairs:      16,
	}.DecMode())
)

func mustMode[M any](mode M, err error) M {
	if err != nil {
		panic(err) // the constants above are wrong
	}
	return mode
}

func encode(kind Kind, id uint32, body any) []byte {
	raw, err := encMode.Marshal(body)
	if err != nil {
		panic(err) // bodies are structs, strings and slices of bytes
	}
	msg, err := encMode.Marshal(envelope{Kind: kind, ID: id, Body: raw})
	if err != nil {
		panic(err)
	}
	return msg
}

// decoded is a message whose every field is within its bounds.
type decoded struct {
	kind       Kind
	id         uint32
	roots      [store.Trees]store.Hash
	getNodes   getNodesBody
	hashes     []byte
	getEntries getEntriesBody
	entries    entriesBody
	getRecords getRecordsBody
	records    [][]byte
	bye        byeBody
}

// decode reads a message and checks all that can be checked without knowing
// what was asked.
func decode(msg []byte) (*decoded, error) {
	if len(msg) > MaxMessage {
		return nil, fmt.Errorf("message of %d bytes; at most %d", len(msg), MaxMessage)
	}
	var env envelope
	if err := decMode.Unmarshal(msg, &env); err != nil {
		return nil, err
	}
	d := &decoded{kind: env.Kind, id: env.ID}
	unanswered := env.Kind == Summary || env.Kind == Push || env.Kind == Bye
	if unanswered != (env.ID == 0) {
		return nil, fmt.Errorf("kind %d with request number %d", env.Kind, env.ID)
	}
	return d, d.body(env.Body)
}

func (d *decoded) body(raw []byte) error {
	switch d.kind {
	case Summary:
		var b []byte
		if err := decMode.Unmarshal(raw, &b); err != nil || len(b) != summaryLen {
			return fmt.Errorf("summary: want %d bytes: %w", summaryLen, err)
		}
		for i := range d.roots {
			copy(d.roots[i][:], b[i*len(store.Hash{}):])
		}
		return nil
	case GetNodes:
		return d.readGetNodes(raw)
	case Nodes:
		return decMode.Unmarshal(raw, &d.hashes)
	case GetEntries:
		return d.readGetEntries(raw)
	case Entries:
		if err := decMode.Unmarshal(raw, &d.entries); err != nil {
			return err
		}
		for _, list := range d.entries.Lists {
			if len(list)%store.EntryLen != 0 {
				return fmt.Errorf("entries: %d bytes", len(list))
			}
		}
		return nil
	case GetRecords:
		err := decMode.Unmarshal(raw, &d.getRecords)
		n := len(d.getRecords.Wants)
		if err != nil || d.getRecords.Tree >= store.Trees || n == 0 || n%wantLen != 0 || n > maxWants*wantLen {
			return fmt.Errorf("get-records: %d bytes: %w", n, err)
		}
		return nil
	case Records, Push:
		return d.readRecords(raw)
	case Bye:
		if err := decMode.Unmarshal(raw, &d.bye); err != nil || len(d.bye.Text) > maxByeText {
			return fmt.Errorf("bye: %w", err)
		}
		return nil
	}
	return fmt.Errorf("kind %d is not known", d.kind)
}

func (d *decoded) readGetNodes(raw []byte) error {
	err := decMode.Unmarshal(raw, &d.getNodes)
	if n := len(d.getNodes.Nodes); err != nil || n == 0 || n > maxNodes || d.getNodes.Tree >= store.Trees {
		return fmt.Errorf("get-nodes: %d nodes: %w", n, err)
	}
	for _, n := range d.getNodes.Nodes {
		if n > store.Fanout {
			return fmt.Errorf("get-nodes: node %d", n)
		}
	}
	return nil
}

func (d *decoded) readGetEntries(raw []byte) error {
	err := decMode.Unmarshal(raw, &d.getEntries)
	n, after := len(d.getEntries.Leaves), len(d.getEntries.After)
	if err != nil || n == 0 || n > maxLeaves || d.getEntries.Tree >= store.Trees || after != 0 && after != len(binding.Slot{}) {
		return fmt.Errorf("get-entries: %d leaves: %w", n, err)
	}
	for _, leaf := range d.getEntries.Leaves {
		if leaf >= store.Leaves {
			return fmt.Errorf("get-entries: leaf %d", leaf)
		}
	}
	return nil
}

func (d *decoded) readRecords(raw []byte) error {
	if err := decMode.Unmarshal(raw, &d.records); err != nil {
		return err
	}
	limit := maxWants
	if d.kind == Push {
		limit = maxPush
	}
	if len(d.records) > limit || d.kind == Push && len(d.records) == 0 {
		return fmt.Errorf("%d records in one message", len(d.records))
	}
	for _, r := range d.records {
		if len(r) > binding.MaxRecordLen {
			return fmt.Errorf("record of %d bytes", len(r))
		}
	}
	return nil
}
