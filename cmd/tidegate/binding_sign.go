// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/binding"
	"tidegate/internal/cli"
)

// signFlags are the command line of `binding sign`.
type signFlags struct {
	key, subject, role  string
	prefixes, endpoints []string
	serial              uint64
	valid               time.Duration
	notBefore, out      string
	revoke, asJSON      bool
}

// maxAhead bounds how far in the future a record may begin: a revocation is kept
// as long as records live, and seven days more.
const maxAhead = 7 * 24 * time.Hour

func newBindingSignCmd() *cobra.Command {
	var f signFlags
	cmd := &cobra.Command{
		Use:   "sign --key ISSUER.key --subject PUBLIC --role ROLE --prefix PREFIX... --out FILE",
		Short: "Sign a record that binds prefixes and a role to a key",
		Long: `Sign a record with the issuer's private key. The issuer must be a configured anchor
or hold an authority record for the prefixes; sign does not check that, verify does.

  role authority        the subject may sign records for the prefixes
  role border-manager   the subject filters traffic from the prefixes
  role filter-manager   the subject may request filters on traffic to the prefixes
  --revoke              ends the record of the same issuer, subject and role;
                        with role key: all that the issuer bound to the subject`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.record(time.Now())
			if err != nil {
				return err
			}
			key, err := binding.LoadKeyFile(f.key)
			if err != nil {
				return err
			}
			defer clear(key)
			signed, err := binding.Sign(*r, key)
			if err != nil {
				return cli.UsageErrorf("%v", err)
			}
			if err := f.write(cmd, signed); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "signed serial %d, valid until %s\n", signed.Serial, utc(signed.NotAfter))
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.key, "key", "", "`FILE` with the issuer's private key, made by tidegate binding keygen")
	fl.StringVar(&f.subject, "subject", "", "public `KEY` to bind, 64 hex digits")
	fl.StringVar(&f.role, "role", "", "`ROLE`: border-manager, filter-manager, authority or, with --revoke, key")
	fl.StringSliceVar(&f.prefixes, "prefix", nil, "IPv4 or IPv6 `PREFIX`; may be repeated, or a list separated by commas")
	fl.StringSliceVar(&f.endpoints, "endpoint", nil, "where the manager listens, `SERVICE=ADDRESS:PORT`; the service is ifp or flood; may be repeated")
	fl.Uint64Var(&f.serial, "serial", 0, "`NUMBER` that must be higher than that of the record it replaces (0: the time in seconds)")
	fl.DurationVar(&f.valid, "valid", 0, "`DURATION` of its validity (0: 90 days; a revocation: 405 days)")
	fl.StringVar(&f.notBefore, "not-before", "", "start of its validity, a `TIME` such as 2026-01-31T00:00:00Z (default now)")
	fl.StringVar(&f.out, "out", "", "`FILE` to write; an existing one is not overwritten (-: stdout)")
	fl.BoolVar(&f.revoke, "revoke", false, "revoke instead of bind")
	fl.BoolVar(&f.asJSON, "json", false, "also write the record as a JSON object to stdout")
	for _, name := range []string{"key", "subject", "role", "out"} {
		cmd.MarkFlagRequired(name)
	}
	return cmd
}

func (f *signFlags) record(now time.Time) (*binding.Record, error) {
	r := &binding.Record{Serial: f.serial, Revoked: f.revoke}
	var err error
	if r.Role, err = binding.ParseRole(f.role); err != nil {
		return nil, cli.UsageErrorf("--role: %v", err)
	}
	if r.Key, err = binding.ParseKey(f.subject); err != nil {
		return nil, cli.UsageErrorf("--subject: %v", err)
	}
	for _, text := range f.prefixes {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			return nil, cli.UsageErrorf("--prefix %q: want a prefix without host bits, such as 192.0.2.0/24 or 2001:db8::/32", text)
		}
		r.Prefixes = append(r.Prefixes, p)
	}
	for _, text := range f.endpoints {
		e, err := binding.ParseEndpoint(text)
		if err != nil {
			return nil, cli.UsageErrorf("--endpoint: %v", err)
		}
		r.Endpoints = append(r.Endpoints, e)
	}
	if f.asJSON && f.out == "-" {
		return nil, cli.UsageErrorf("--json and --out - both want stdout; name a file")
	}
	if r.Serial == 0 {
		r.Serial = uint64(now.Unix())
	}
	return r, f.setLife(r, now)
}

func (f *signFlags) setLife(r *binding.Record, now time.Time) error {
	begin, life := now, f.valid
	if f.notBefore != "" {
		var err error
		if begin, err = time.Parse(time.RFC3339, f.notBefore); err != nil {
			return cli.UsageErrorf("--not-before %q: want a time such as 2026-01-31T00:00:00Z", f.notBefore)
		}
		if begin.After(now.Add(maxAhead)) {
			return cli.UsageErrorf("--not-before %s: at most %d days ahead, or a revocation might not outlive the record", f.notBefore, maxAhead/(24*time.Hour))
		}
	}
	switch {
	case life == 0 && f.revoke:
		life = binding.MinRevocation
	case life == 0:
		life = 90 * 24 * time.Hour
	}
	r.NotBefore, r.NotAfter = begin.Unix(), begin.Add(life).Unix()
	return nil
}

func (f *signFlags) write(cmd *cobra.Command, r *binding.Record) error {
	if f.out == "-" {
		_, err := cmd.OutOrStdout().Write(r.Raw())
		return err
	}
	file, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists and is not overwritten; choose another name or remove it first", f.out)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(r.Raw())
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(f.out)
		return err
	}
	if f.asJSON {
		return cli.WriteJSON(cmd.OutOrStdout(), shownRecord{File: f.out, Record: r, SignatureOK: true})
	}
	return nil
}

func publicOf(key ed25519.PrivateKey) string {
	return binding.Key(key.Public().(ed25519.PublicKey)).String()
}
