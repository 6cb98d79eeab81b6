// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// nftables as it stands in netlink messages. The library google/nftables drops expressions
// that it does not know silently, and a rule without its condition reads like one that
// always holds; so attributes are read here, and an unknown expression stays visible.

// attr is one netlink attribute.
type attr struct {
	kind  uint16
	value []byte
}

var errAttribute = errors.New("a netlink attribute is cut short")

// attrs takes a run of attributes apart.
func attrs(b []byte) (list []attr, err error) {
	list = make([]attr, 0, 4)
	for len(b) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return list, errAttribute
		}
		kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		list = append(list, attr{kind, b[unix.SizeofRtAttr:size]})
		b = b[min(len(b), (size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
	return list, nil
}

// fields are attributes that are looked up by their kind. There are few: a list is faster than a map.
type fields []attr

// fieldsOf parses attributes; truncated ones are left out.
func fieldsOf(b []byte) fields {
	list, _ := attrs(b)
	return list
}

// find is the value of a kind, if there is one.
func (f fields) find(kind uint16) (value []byte, there bool) {
	for _, a := range f {
		if a.kind == kind {
			return a.value, true
		}
	}
	return nil, false
}

func (f fields) get(kind uint16) []byte {
	value, _ := f.find(kind)
	return value
}

// text is a string, which the kernel ends with a zero.
func (f fields) text(kind uint16) string { return textOf(f.get(kind)) }

func textOf(b []byte) string {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

// number is a big-endian number of up to 32 bits.
func (f fields) number(kind uint16) uint32 { return numberOf(f.get(kind)) }

func numberOf(b []byte) (n uint32) {
	for _, c := range b {
		n = n<<8 | uint32(c)
	}
	return n
}

const nfgenSize = 4 // struct nfgenmsg: family, version, resource

type nfgen [nfgenSize]byte

func (nfgen) Len() int            { return nfgenSize }
func (n nfgen) Serialize() []byte { return n[:] }

// ask sends a request to nftables and returns the messages of the answer.
func ask(command int, dump bool, with ...*nl.RtAttr) ([][]byte, error) {
	return askOf(unix.NFPROTO_UNSPEC, command, dump, with...)
}

func askOf(family uint8, command int, dump bool, with ...*nl.RtAttr) ([][]byte, error) {
	flags := 0
	if dump {
		flags = unix.NLM_F_DUMP
	}
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|command, flags)
	req.AddData(nfgen{family})
	for _, a := range with {
		req.AddData(a)
	}
	answer, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil, err
	}
	for _, m := range answer {
		if len(m) < nfgenSize {
			return nil, errAttribute
		}
	}
	return answer, nil
}

// absent: this kernel has no nftables, or it has never been used here.
func absent(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT)
}

var errChanging = errors.New("the rules change faster than they can be read")

// generation counts the changes of nftables in this network namespace.
func generation() (uint32, error) {
	answer, err := ask(unix.NFT_MSG_GETGEN, false)
	if err != nil {
		return 0, err
	}
	if len(answer) == 0 {
		return 0, fmt.Errorf("no generation of nftables")
	}
	return fieldsOf(answer[0][nfgenSize:]).number(unix.NFTA_GEN_ID), nil
}

const attempts = 5 // to read rules between two changes

// consistently repeats read until no change happened during it.
func consistently(read func() error) error {
	for range attempts {
		before, err := generation()
		if err != nil {
			return err
		}
		if err := read(); errors.Is(err, netlink.ErrDumpInterrupted) || errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return err
		}
		if after, err := generation(); err != nil || after == before {
			return err
		}
	}
	return errChanging
}
