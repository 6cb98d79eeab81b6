// SPDX-License-Identifier: Apache-2.0

package strategies

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// How figures become marks, and the published tables to compare with.

// TableRow is one line of a table: for each strategy a mark and the figure that decides
// it.
type TableRow struct {
	Name      string          `json:"name"`
	Threshold string          `json:"threshold"` // derives the mark from the figure
	Cells     map[string]Cell `json:"cells"`     // by strategy
}

// Cell is one measured mark and the published one.
type Cell struct {
	Mark      string `json:"mark"` // empty: not measured
	Figure    string `json:"figure"`
	Published string `json:"published"` // empty: the strategy is not in the table
}

// Agrees reports whether the marks are the same; a published "-/o" is either.
func (c Cell) Agrees() bool { return slices.Contains(strings.Split(c.Published, "/"), c.Mark) }

// Thresholds of the marks.
const (
	memoryPlus     = 1.0 // bytes a SYN
	efficientTwice = 3.0 // times SipHash-2-4 above a plain reflection, in instructions
	efficientOnce  = 5.0
	falsePlus      = 0.0 // share of forged sources
	falseO         = 0.01
)

// rule derives one row of a table.
type rule struct {
	name, threshold string
	published       map[string]string // by strategy
	mark            func(r *Report, f *Figures) (mark, figure string)
}

func marks(cache, cookie, wrong, full, ttl, authCookie string) map[string]string {
	return map[string]string{"cache": cache, "cookie": cookie, "auth-wrong": wrong, "auth-full": full,
		"auth-ttl": ttl, "auth-cookie": authCookie}
}

// tableI holds the marks of the paper's Table I.
var tableI = []rule{
	{"memory immunity", fmt.Sprintf("+ if a flood of SYNs makes all tables grow by less than %g byte a SYN", memoryPlus),
		marks("-", "+", "+", "+", "-", "+"), func(_ *Report, f *Figures) (string, string) {
			return plusIf(f.MemoryPerSYN < memoryPlus), fmt.Sprintf("%.3g B/SYN", f.MemoryPerSYN)
		}},
	{"CPU immunity", "+ if a SYN takes fewer instructions than one SipHash-2-4 (of 16 bytes) more than with the cheapest strategy of this run",
		marks("+", "-", "+", "+", "+", "-"), func(r *Report, f *Figures) (string, string) {
			if f.Instructions == nil || r.SipHash == 0 {
				return "", "not counted"
			}
			more := *f.Instructions - r.cheapest()
			return plusIf(more < r.SipHash), fmt.Sprintf("%.2f SipHash above the cheapest", float64(more)/float64(r.SipHash))
		}},
	{"efficiency", fmt.Sprintf("++ if a SYN takes at most as many instructions as %g SipHash-2-4 above a plain reflection, + if at most %g", efficientTwice, efficientOnce),
		marks("-", "+", "++", "++", "++", "+"), func(r *Report, f *Figures) (string, string) {
			if f.Instructions == nil || r.SipHash == 0 {
				return "", "not counted"
			}
			times := float64(*f.Instructions-r.Reflect) / float64(r.SipHash)
			mark := "-"
			if times <= efficientTwice {
				mark = "++"
			} else if times <= efficientOnce {
				mark = "+"
			}
			return mark, fmt.Sprintf("%d, of them %d calls: %.2f SipHash", *f.Instructions, f.Helpers, times)
		}},
	{"transparency", "+ if the first connection of every new client succeeds, without a retry by the application",
		marks("+", "+", "-", "-", "-", "-"), func(_ *Report, f *Figures) (string, string) {
			return plusIf(f.FirstOK == f.FirstTried), fmt.Sprintf("%d of %d", f.FirstOK, f.FirstTried)
		}},
	{"option support", "+ if both ends negotiate the same as without the box, o if MSS or ECN alone differ, - if window scale, SACK or timestamps do",
		marks("+", "-/o", "+", "+", "+", "+"), func(_ *Report, f *Figures) (string, string) {
			mark := "+"
			if f.CoreLost {
				mark = "-"
			} else if len(f.OptionsLost) > 0 {
				mark = "o"
			}
			return mark, fmt.Sprintf("%d of %d kept", f.OptionsAsked-len(f.OptionsLost), f.OptionsAsked)
		}},
	{"robustness", "+ if an unanswered SYN-ACK is retransmitted within the time (a stack does so after a second), o if at least the client's own second SYN is answered",
		marks("+", "-", "o", "o", "o", "o"), func(r *Report, f *Figures) (string, string) {
			switch {
			case f.AnswersUnasked > 0:
				return "+", fmt.Sprintf("%d more in %g s", f.AnswersUnasked, r.Unanswered)
			case f.AnswersRetransmits:
				return "o", "to a second SYN"
			}
			return "-", "never"
		}},
	{"false positive", fmt.Sprintf("+ if no source of a SYN, ACK or RST flood gets through, o up to %g %%", 100*falseO),
		marks("+", "+", "-", "-", "o", "+"), func(_ *Report, f *Figures) (string, string) {
			kinds := []string{"syn", "ack", "rst"}
			worst, shares := 0.0, make([]string, len(kinds))
			for i, k := range kinds {
				worst = max(worst, f.Forged[k].Share)
				shares[i] = fmt.Sprintf("%s %s", strings.ToUpper(k), share(f.Forged[k].Share))
			}
			mark := "-"
			if worst <= falsePlus {
				mark = "+"
			} else if worst <= falseO {
				mark = "o"
			}
			return mark, strings.Join(shares, ", ")
		}},
	{"false negative", fmt.Sprintf("+ if every legitimate client is served under the flood, after one retry at most; o from %g %%", 100*(1-falseO)),
		marks("+", "+", "+", "+", "+", "+"), func(_ *Report, f *Figures) (string, string) {
			mark := plusIf(f.Refused == 0)
			if f.Refused > 0 && float64(f.Refused) <= falseO*float64(f.Legit) {
				mark = "o"
			}
			return mark, fmt.Sprintf("%d of %d refused", f.Refused, f.Legit)
		}},
}

func cookieOrAuth(cookie, auth string) map[string]string {
	return marks("", cookie, auth, auth, auth, auth)
}

// tableII holds the marks of the paper's Table II for SYN cookies and SYN authentication.
var tableII = []rule{
	{"packet modification", "\"every segment\" if all data segments differ on the two sides of the box, \"handshake\" if none does",
		cookieOrAuth("every segment", "handshake"), func(_ *Report, f *Figures) (string, string) {
			mark := "some"
			switch f.SegmentsChanged {
			case f.Segments:
				mark = "every segment"
			case 0:
				mark = "handshake"
			}
			return mark, fmt.Sprintf("%d of %d changed", f.SegmentsChanged, f.Segments)
		}},
	{"transparent", "as in Table I", cookieOrAuth("yes", "no"), func(_ *Report, f *Figures) (string, string) {
		return word(f.FirstOK == f.FirstTried, "yes", "no"), fmt.Sprintf("%d of %d", f.FirstOK, f.FirstTried)
	}},
	{"option support", "\"full\" if nothing was lost", cookieOrAuth("limited", "full"), func(_ *Report, f *Figures) (string, string) {
		return word(len(f.OptionsLost) == 0, "full", "limited"), fmt.Sprintf("%d of %d kept", f.OptionsAsked-len(f.OptionsLost), f.OptionsAsked)
	}},
	{"state per", fmt.Sprintf("\"flow\" if %d connections of one source are as many entries, \"source\" if they are at most one", heldForEntries),
		cookieOrAuth("flow", "source"), func(_ *Report, f *Figures) (string, string) {
			mark := "neither"
			if f.EntriesOneSrc >= heldForEntries {
				mark = "flow"
			} else if f.EntriesOneSrc <= 1 {
				mark = "source"
			}
			return mark, fmt.Sprintf("%d from one source, %d from %d", f.EntriesOneSrc, f.EntriesManySrc, heldForEntries)
		}},
	{"lookup key", "\"4-tuple\" if state is per flow, \"src. IP\" if it is per source; the key's size as the kernel has it",
		cookieOrAuth("4-tuple", "src. IP"), func(_ *Report, f *Figures) (string, string) {
			return word(f.EntriesOneSrc >= heldForEntries, "4-tuple", "src. IP"), fmt.Sprintf("%d bytes", f.KeyBytes)
		}},
	{"memory required", "for one entry, as the kernel accounts it: its buckets' share, header, key and value",
		cookieOrAuth("> 32 bit", "2 bit"), func(_ *Report, f *Figures) (string, string) {
			if f.EntryBytes < 1 {
				return word(f.EntryBytes > 0 && f.EntryBytes*8 < 2.01, "2 bit", "?"), fmt.Sprintf("%.3g bits", 8*f.EntryBytes)
			}
			return word(f.EntryBytes*8 > 32, "> 32 bit", "2 bit"), fmt.Sprintf("%.0f bytes", f.EntryBytes)
		}},
	{"lookup for", "a known client's SYN (from a new port), or its ACK or RST, is judged differently from an unknown one's",
		cookieOrAuth("not SYN", "every segment"), func(_ *Report, f *Figures) (string, string) {
			switch {
			case f.LooksUpSYN && f.LooksUpOther:
				return "every segment", "SYN, ACK or RST"
			case f.LooksUpOther:
				return "not SYN", "ACK or RST"
			case f.LooksUpSYN:
				return "SYN", "SYN"
			}
			return "nothing", "neither"
		}},
}

// why a measured mark differs from the published one, where the reason is known.
var why = map[[2]string]string{
	{"memory immunity", "auth-ttl"}: "the challenge's sequence number encodes the TTL; nothing is stored",
	{"memory immunity", "cache"}:    "the table has its full size from the start; what it has no room for gets cookies",
	{"transparency", "auth-wrong"}:  "Linux answers the wrong acknowledgement with a RST and retransmits its SYN; other stacks wait a second or give up",
	{"transparent", "auth-wrong"}:   "Linux retransmits its SYN itself",
	{"robustness", "cookie"}:        "a retransmitted SYN is answered like a first one; nothing is retransmitted, and a lost final ACK still hangs a client that waits for the server to speak first",
	{"false positive", "auth-ttl"}:  "an ACK must also acknowledge the challenge's number, which is a keyed hash",
	{"option support", "cookie"}:    "the cookie carries window scale, SACK, timestamps and ECN, and with timestamps the whole MSS",
	{"memory required", "auth-"}:    "a hash table's entry; the published two bits are those of a bitmap of all addresses",
	{"CPU immunity", "cookie"}:      "the challenges of the cheapest strategies are keyed hashes, too (SipHash-1-3)",
	{"CPU immunity", "auth-cookie"}: "the challenges of the cheapest strategies are keyed hashes, too (SipHash-1-3)",
	{"CPU immunity", "cache"}:       "every SYN searches its bucket",
	{"efficiency", "cookie"}:        "instructions are no time: the thresholds date from a count of nanoseconds",
	{"efficiency", "cache"}:         "a count of instructions does not see what memory costs: in time it is the dearest (bench --role proxy)",
	{"efficiency", "auth-cookie"}:   "the cookie is the same as `cookie`'s",
}

// Reason is why a measured mark differs from the published one; empty if it is not known.
func Reason(row, strategy string) string {
	if text, there := why[[2]string{row, strategy}]; there {
		return text
	}
	if strings.HasPrefix(strategy, "auth-") {
		return why[[2]string{row, "auth-"}]
	}
	return ""
}

func plusIf(yes bool) string { return word(yes, "+", "-") }

func word(yes bool, ifYes, ifNo string) string {
	if yes {
		return ifYes
	}
	return ifNo
}

// share prints a share such that one in many is not zero.
func share(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.001:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

func (r *Report) cheapest() int {
	least := math.MaxInt
	for _, f := range r.Figures {
		if f.Instructions != nil {
			least = min(least, *f.Instructions)
		}
	}
	return least
}

// judge derives the tables from the figures.
func (r *Report) judge() {
	r.Disagrees, r.NotOffered = []string{}, []string{}
	fill := func(which string, rules []rule) (rows []TableRow) {
		for _, rule := range rules {
			row := TableRow{Name: rule.name, Threshold: rule.threshold, Cells: map[string]Cell{}}
			for i := range r.Figures {
				f := &r.Figures[i]
				plain, bitmap := strings.CutSuffix(f.Strategy, BitmapSuffix)
				if bitmap && which == "I" {
					continue
				}
				mark, figure := rule.mark(r, f)
				c := Cell{Mark: mark, Figure: figure, Published: rule.published[plain]}
				row.Cells[f.Strategy] = c
				if mark == "" || c.Published == "" || c.Agrees() {
					continue
				}
				text := fmt.Sprintf("Table %s, %s, %s: published %s, measured %s (%s)", which, rule.name, f.Strategy, c.Published, mark, figure)
				if because := Reason(rule.name, f.Strategy); because != "" {
					text += ": " + because
				}
				r.Disagrees = append(r.Disagrees, text)
			}
			rows = append(rows, row)
		}
		return rows
	}
	r.TableI, r.TableII = fill("I", tableI), fill("II", tableII)
	for _, s := range []string{"cache", "cookie", "auth-wrong", "auth-full", "auth-ttl", "auth-cookie"} {
		if !slices.ContainsFunc(r.Figures, func(f Figures) bool { return f.Strategy == s }) {
			r.NotOffered = append(r.NotOffered, s)
		}
	}
}

// Print writes both tables, the figure behind each mark, and the differences from
// the published tables.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	table := func(title string, rows []TableRow) {
		fmt.Fprintf(t, "%s; [published]\t", title)
		for _, f := range r.Figures {
			fmt.Fprintf(t, "%s\t", f.Strategy)
		}
		fmt.Fprintln(t)
		for _, row := range rows {
			marks, figures := row.Name+"\t", "\t"
			for _, f := range r.Figures {
				c := row.Cells[f.Strategy]
				marks += fmt.Sprintf("%s [%s]\t", word(c.Mark == "", "?", c.Mark), word(c.Published == "", " ", c.Published))
				figures += c.Figure + "\t"
			}
			fmt.Fprintf(t, "%s\n%s\n", marks, figures)
		}
		fmt.Fprintln(t)
	}
	table("TABLE I", r.TableI)
	table("TABLE II", r.TableII)
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "FIGURES BEHIND THE MARKS (Linux %s, %s; flood %s SYN/s, forged floods of %d frames", r.Kernel, r.CPU, r.Rate, r.Frames)
	if r.SipHash > 0 {
		fmt.Fprintf(w, "; instructions of SipHash-2-4 %d, of a reflection %d", r.SipHash, r.Reflect)
	}
	fmt.Fprintln(w, ")")
	for i, rows := range [][]TableRow{r.TableI, r.TableII} {
		for _, row := range rows {
			fmt.Fprintf(w, "%-4s%s: %s\n", [...]string{"I", "II"}[i], row.Name, row.Threshold)
		}
	}
	fmt.Fprintln(w, "\nLOST OPTIONS")
	for _, f := range r.Figures {
		fmt.Fprintf(w, "%s: %s\n", f.Strategy, word(len(f.OptionsLost) == 0, "none", strings.Join(f.OptionsLost, "; ")))
	}
	fmt.Fprintln(w, "\nDIFFERENCES FROM THE PUBLISHED TABLES")
	for _, d := range r.Disagrees {
		fmt.Fprintln(w, d)
	}
	if len(r.Disagrees) == 0 {
		fmt.Fprintln(w, "nowhere")
	}
	if len(r.NotOffered) > 0 {
		fmt.Fprintf(w, "not measured: %s\n", strings.Join(r.NotOffered, ", "))
	}
	return nil
}
