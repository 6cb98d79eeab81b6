// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"
)

// Journal writes events to systemd's journal with fields of their own: `journalctl TIDEGATE_KIND=degraded`.
type Journal struct{}

// NewJournal fails if there is no journal.
func NewJournal() (*Journal, error) {
	if !journal.Enabled() {
		return nil, errors.New("events.journal: no systemd journal accepts messages here; set it to no, or use events.file")
	}
	return &Journal{}, nil
}

// Name is the taker's name.
func (*Journal) Name() string { return "journal" }

// Take sends it.
func (*Journal) Take(_ context.Context, e Event) error {
	return journal.Send(e.Message, priorities[e.Kind], fields(&e))
}

// priorities of kinds, as syslog's.
var priorities = map[Kind]journal.Priority{Started: journal.PriInfo, Stopped: journal.PriNotice, ConfigChanged: journal.PriNotice,
	ReloadRefused: journal.PriErr, Degraded: journal.PriWarning, Recovered: journal.PriNotice}

// fields of an event; empty ones are left out.
func fields(e *Event) map[string]string {
	all := map[string]string{"SYSLOG_IDENTIFIER": "tidegate", "TIDEGATE_EVENT": e.ID, "TIDEGATE_SEQ": strconv.FormatUint(e.Seq, 10),
		"TIDEGATE_KIND": string(e.Kind), "TIDEGATE_INSTANCE": e.Instance, "TIDEGATE_ROLE": e.Role, "TIDEGATE_CONDITION": e.Name, "TIDEGATE_SERVICE": e.Service}
	for k, v := range e.Detail {
		all["TIDEGATE_"+strings.ToUpper(strings.ReplaceAll(k, "-", "_"))] = v
	}
	for k, v := range all {
		if v == "" {
			delete(all, k)
		}
	}
	return all
}
