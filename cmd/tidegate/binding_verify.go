// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/binding"
	"tidegate/internal/binding/store"
	"tidegate/internal/cli"
)

func newBindingVerifyCmd() *cobra.Command {
	var anchors, at string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify --anchors FILE RECORD...",
		Short: "Check which records a manager with these anchors would accept",
		Long: `Add the records to an empty store with these anchors, in the order they need,
and print the result for each. List the authorities' records, too: a record is
accepted only if a chain of valid authorities leads from it to an anchor. The
exit code is 1 if a record is not accepted.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			now := time.Now()
			if at != "" {
				var err error
				if now, err = time.Parse(time.RFC3339, at); err != nil {
					return cli.UsageErrorf("--at %q: want a time such as 2026-01-31T00:00:00Z", at)
				}
			}
			list, err := binding.LoadAnchors(anchors)
			if err != nil {
				return err
			}
			verdicts, err := judgeRecords(list, args, now)
			if err != nil {
				return err
			}
			return writeVerdicts(cmd.OutOrStdout(), verdicts, asJSON)
		},
	}
	cmd.Flags().StringVar(&anchors, "anchors", "", "YAML `FILE` with the anchors: a list of {name, key, prefixes}")
	cmd.Flags().StringVar(&at, "at", "", "check as of this `TIME`, such as 2026-01-31T00:00:00Z (default now)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON array")
	cmd.MarkFlagRequired("anchors")
	return cmd
}

// verdict is what became of one file.
type verdict struct {
	File   string          `json:"file"`
	Code   binding.Code    `json:"code"`
	Error  string          `json:"error,omitempty"`
	Record *binding.Record `json:"record,omitempty"`
}

func judgeRecords(anchors []binding.Anchor, paths []string, now time.Time) ([]verdict, error) {
	s, err := store.New(store.Options{Anchors: anchors})
	if err != nil {
		return nil, err
	}
	list := make([]verdict, len(paths))
	raws := make([][]byte, len(paths))
	for i, path := range paths {
		list[i] = verdict{File: path, Code: binding.NoAuthority}
		if raws[i], err = readRecordFile(path); err != nil {
			return nil, err
		}
	}
	for progress := true; progress; {
		progress = false
		for i := range list {
			// Its authority may stand in a later file.
			if c := list[i].Code; c != binding.NoAuthority && c != binding.Wider {
				continue
			}
			list[i].Record, err = s.Admit(raws[i], now)
			list[i].Code, list[i].Error = binding.CodeOf(err), ""
			if err != nil {
				list[i].Error = err.Error()
			}
			progress = progress || err == nil
		}
	}
	for i := range list {
		// A record that came later may have ended one that was admitted.
		if r := list[i].Record; list[i].Code == binding.OK {
			if code := binding.CodeOf(s.Check(r, now)); code != binding.Duplicate {
				list[i].Code, list[i].Error = code, s.Check(r, now).Error()
			}
		}
	}
	return list, nil
}

func writeVerdicts(w io.Writer, list []verdict, asJSON bool) error {
	failed := false
	for _, v := range list {
		failed = failed || v.Code != binding.OK
	}
	var err error
	if asJSON {
		err = cli.WriteJSON(w, list)
	} else {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, v := range list {
			if v.Code == binding.OK {
				fmt.Fprintf(t, "%s\tok\t%s of %s\n", v.File, v.Record.Role, v.Record.Key)
			} else {
				fmt.Fprintf(t, "%s\tREFUSED\t%s\n", v.File, cli.OneLine(v.Error))
			}
		}
		err = t.Flush()
	}
	if err == nil && failed {
		return cli.ErrSilent
	}
	return err
}
