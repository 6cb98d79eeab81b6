// SPDX-License-Identifier: Apache-2.0

package book

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// writePages writes a page for each chapter, its plots, and the index.
func writePages(out string, chapters []Chapter, all []*Outcome) error {
	var errs []error
	for _, c := range chapters {
		var mine []*Outcome
		for _, x := range all {
			if x.Chapter == c.Name {
				mine = append(mine, x)
			}
		}
		errs = append(errs, drawPlots(out, mine), os.WriteFile(filepath.Join(out, c.Name+".md"), []byte(page(c, mine)), 0o644))
	}
	return errors.Join(append(errs, os.WriteFile(filepath.Join(out, "index.md"), []byte(index(chapters, all)), 0o644))...)
}

const pageHead = "<!-- Written by tidegate-lab book; do not edit. -->\n\n"

// page is one chapter.
func page(c Chapter, mine []*Outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# %s\n\nEach table and figure, and what cannot be measured here: [the book's index](index.md).\n", pageHead, c.Title)
	b.WriteString(differences(mine))
	for _, x := range mine {
		fmt.Fprintf(&b, "\n## %s\n\n", x.Unit)
		fmt.Fprintf(&b, "`%s`, tidegate %s (programs %s), %s, %.1f s; %s, Linux %s, %d CPUs; load average %s at the start, %s at the end. [Data](data/%s-%s.json).\n",
			x.Command, x.Version, x.Tree, x.Begun.Format("2006-01-02 15:04 UTC"), x.Seconds, x.Machine.CPU, x.Machine.Kernel, x.Machine.CPUs,
			x.Machine.LoadStart, x.Machine.LoadEnd, x.Chapter, x.Unit)
		if x.Setting.Smallest {
			b.WriteString("\nThe smallest run: it shows that the experiment works. Its numbers decide nothing.\n")
		}
		if x.Finding == nil {
			fmt.Fprintf(&b, "\nIt failed: %s\n", cell(x.Error))
			continue
		}
		b.WriteString("\n| | what | ours | the paper's | verdict |\n|---|---|---|---|---|\n")
		for _, l := range x.Lines {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(l.Item), cell(l.What), cell(l.Ours), cell(dash(l.Paper)), cell(l.verdict()))
		}
		for i, p := range x.Plots {
			fmt.Fprintf(&b, "\n![%s](%s)\n", p.Title, plotName(x, i))
		}
	}
	var missing []string
	for _, u := range c.Units {
		if !slices.ContainsFunc(mine, func(x *Outcome) bool { return x.Unit == u.Name }) {
			missing = append(missing, fmt.Sprintf("| %s | `tidegate-lab book %s/%s` | %s |\n", u.Name, c.Name, u.Name, roughly(u.Takes)))
		}
	}
	if len(missing) > 0 {
		b.WriteString("\n## Not measured yet\n\n| unit | command | takes about |\n|---|---|---|\n" + strings.Join(missing, ""))
	}
	return b.String()
}

// roughly is a duration in words.
func roughly(d time.Duration) string {
	switch {
	case d == 0:
		return "no time"
	case d < 90*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}

// index maps each table and figure to its command, our number and the paper's of its first line, and says how much of it agrees; all lines are on the chapters' pages.
func index(chapters []Chapter, all []*Outcome) string {
	var b strings.Builder
	b.WriteString(pageHead + "# The book: every table and figure of the five papers\n\n" +
		"A result links to our numbers and the paper's, line by line; each chapter's page begins with what differs, and why.\n")
	for _, c := range chapters {
		fmt.Fprintf(&b, "\n## %s\n\n| | what it shows | ours; the paper's, first line | result | command |\n|---|---|---|---|---|\n", c.Title)
		for _, it := range c.Items {
			command, found, first := "-", "not here", "-"
			if it.Unit != "" {
				command, found = "`tidegate-lab book "+c.Name+"/"+it.Unit+"`", "not measured yet"
			}
			if i := slices.IndexFunc(all, func(x *Outcome) bool { return x.Chapter == c.Name && x.Unit == it.Unit }); it.Unit != "" && i >= 0 {
				command = "`" + all[i].Command + "`"
				found = fmt.Sprintf("[%s](%s.md#%s)", brief(it.Name, all[i]), c.Name, it.Unit)
				first = firstLine(it.Name, all[i])
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(it.Name), cell(it.What), cell(first), found, command)
		}
		b.WriteString(notHere(c.Items))
	}
	return b.String()
}

// notHere lists what cannot be measured, items with the same reason together.
func notHere(items []Item) string {
	var reasons []string
	names := map[string][]string{}
	for _, it := range items {
		if it.Not == "" {
			continue
		}
		if names[it.Not] == nil {
			reasons = append(reasons, it.Not)
		}
		names[it.Not] = append(names[it.Not], it.Name)
	}
	var b strings.Builder
	for i, r := range reasons {
		if i == 0 {
			b.WriteString("\nNot here, or otherwise than in the paper:\n\n")
		}
		fmt.Fprintf(&b, "- %s: %s.\n", strings.Join(names[r], ", "), cell(r))
	}
	return b.String()
}

// firstLine is the first line of an item that can be compared with the paper; where there is none, the first that has the paper's number, or the first.
func firstLine(item string, x *Outcome) string {
	if x.Finding == nil {
		return "-"
	}
	best, rank := "-", -1
	for _, l := range x.Lines {
		r := 0
		switch {
		case l.Item != item:
			continue
		case l.Agrees != nil:
			r = 2
		case l.Paper != "":
			r = 1
		}
		if r > rank {
			best, rank = fmt.Sprintf("%s: %s; %s", l.What, l.Ours, dash(l.Paper)), r
		}
	}
	return best
}

// brief is what the index says of an item.
func brief(item string, x *Outcome) string {
	if x.Finding == nil {
		return "failed"
	}
	agree, judged, lines := 0, 0, 0
	for _, l := range x.Lines {
		if l.Item != item {
			continue
		}
		lines++
		if l.Agrees != nil {
			if judged++; *l.Agrees {
				agree++
			}
		}
	}
	switch {
	case judged == 0:
		return fmt.Sprintf("%s without a verdict", plural(lines))
	case agree == judged && judged == 1:
		return "agrees"
	case agree == judged:
		return fmt.Sprintf("all %d agree", judged)
	}
	return fmt.Sprintf("%d of %d agree", agree, judged)
}

func plural(lines int) string {
	if lines == 1 {
		return "1 line,"
	}
	return fmt.Sprintf("%d lines,", lines)
}

// differences are the lines of a chapter that differ from the paper, and why.
func differences(mine []*Outcome) string {
	var b strings.Builder
	for _, x := range mine {
		if x.Finding == nil {
			continue
		}
		for _, l := range x.Lines {
			if l.Agrees == nil || *l.Agrees {
				continue
			}
			if b.Len() == 0 {
				b.WriteString("\n## What differs\n\n| | what | ours | the paper's | why |\n|---|---|---|---|---|\n")
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(l.Item), cell(l.What), cell(l.Ours), cell(dash(l.Paper)), cell(l.Reason))
		}
	}
	return b.String()
}

func (l Line) verdict() string {
	switch {
	case l.Agrees == nil:
		return dash(l.Reason)
	case *l.Agrees:
		return "agrees"
	}
	return "differs: " + l.Reason
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// cell makes a text fit into one cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "\\|")
}
