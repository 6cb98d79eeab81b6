// SPDX-License-Identifier: Apache-2.0

//go:build docs

package main

import (
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"tidegate/internal/version"
)

// The manual pages are made by a program of its own tag: what makes them is in no binary that is installed.
func init() {
	more = append(more, func() *cobra.Command {
		return &cobra.Command{Use: "generate-man DIR", Hidden: true, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				root := cmd.Root()
				root.DisableAutoGenTag = true
				header := &doc.GenManHeader{Section: "8", Source: "tidegate " + version.Version, Manual: "Tidegate"}
				if s, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
					at := time.Unix(s, 0).UTC()
					header.Date = &at
				}
				return doc.GenManTree(root, header, args[0])
			}}
	})
}
