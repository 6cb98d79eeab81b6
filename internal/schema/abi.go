// Code generated from core/abi.def by internal/schema/gen; DO NOT EDIT.

package schema

// TG_MODE_... of core/abi.def.
const (
	ModeOff     = 0 // packets go by
	ModeMonitor = 1 // what would be done is counted
	ModeAlways  = 2 // SYNs are answered
	ModeAuto    = 3 // SYNs are answered while an attack lasts; until then they are counted
)

// ModeWords are its words in the configuration, in the order of core/abi.def.
func ModeWords() []string {
	return []string{"off", "monitor", "always", "auto"}
}

// ModeNumber is the number of a word of the configuration, which has to be one of them.
func ModeNumber(word string) uint8 {
	switch word {
	case "off":
		return ModeOff
	case "monitor":
		return ModeMonitor
	case "always":
		return ModeAlways
	case "auto":
		return ModeAuto
	}
	panic("core/abi.def has no mode " + word)
}

// TG_LISTENER_... of core/abi.def.
const (
	ListenerOK        = 0 // adopts connections
	ListenerNone      = 1 // nobody listens: the kernel shall answer RST
	ListenerMPTCP     = 2 // cannot be adopted
	ListenerRefused   = 3 // the kernel has refused to adopt for it, or adopts for nobody
	ListenerGuest     = 4 // not on this machine: behind it, or nobody knows
	ListenerVaries    = 5 // by address and port: core/listener.h
	ListenerTranslate = 6 // not to be adopted for, or elsewhere by a rule of this machine
)

// TG_STALE_... of core/abi.def.
const (
	StalePass = 0 // without a key of this epoch SYNs go on
	StaleDrop = 1 // without a key of this epoch SYNs are dropped
)

// StaleWords are its words in the configuration, in the order of core/abi.def.
func StaleWords() []string {
	return []string{"pass", "drop"}
}

// StaleNumber is the number of a word of the configuration, which has to be one of them.
func StaleNumber(word string) uint8 {
	switch word {
	case "pass":
		return StalePass
	case "drop":
		return StaleDrop
	}
	panic("core/abi.def has no stale " + word)
}

// TG_STRATEGY_... of core/abi.def.
const (
	StrategyCookie     = 0 // cookies; connections are translated
	StrategyAuthCookie = 1 // cookies; sources are whitelisted
	StrategyAuthFull   = 2 // challenges; any ACK proves its source
	StrategyAuthWrong  = 3 // challenges that acknowledge wrong; any RST proves its source
	StrategyAuthTTL    = 4 // challenges; an ACK with the TTL of its SYN proves its source
	StrategyCache      = 5 // SYNs are kept; connections are translated
)

// StrategyWords are its words in the configuration, in the order of core/abi.def.
func StrategyWords() []string {
	return []string{"cookie", "auth-cookie", "auth-full", "auth-wrong", "auth-ttl", "cache"}
}

// StrategyNumber is the number of a word of the configuration, which has to be one of them.
func StrategyNumber(word string) uint8 {
	switch word {
	case "cookie":
		return StrategyCookie
	case "auth-cookie":
		return StrategyAuthCookie
	case "auth-full":
		return StrategyAuthFull
	case "auth-wrong":
		return StrategyAuthWrong
	case "auth-ttl":
		return StrategyAuthTTL
	case "cache":
		return StrategyCache
	}
	panic("core/abi.def has no strategy " + word)
}

// TG_FIRST_DATA_... of core/abi.def.
const (
	FirstDataZeroWindow = 0 // clients send none before the server is there: the SYN-ACK's window is zero
	FirstDataNotify     = 1 // clients may send at once; it is lost, and they are told so
	FirstDataStore      = 2 // it is kept and sent on when the server is there; DPDK only
)

// FirstDataWords are its words in the configuration, in the order of core/abi.def.
func FirstDataWords() []string {
	return []string{"zero-window", "notify", "store"}
}

// FirstDataNumber is the number of a word of the configuration, which has to be one of them.
func FirstDataNumber(word string) uint8 {
	switch word {
	case "zero-window":
		return FirstDataZeroWindow
	case "notify":
		return FirstDataNotify
	case "store":
		return FirstDataStore
	}
	panic("core/abi.def has no first data " + word)
}

// TG_FIXED_... of core/abi.def.
const (
	FixedMSS    = 1 // no server changes what clients are told of the MSS; or-ed
	FixedWScale = 2 // nor of the window scale
)

// TG_UNVERIFIED_... of core/abi.def.
const (
	UnverifiedDrop = 0 // a translating server drops segments that do not verify
	UnverifiedPass = 1 // they go to the stack, which answers RST: the client learns of it at once
)

// TG_LIMIT_... of core/abi.def.
const (
	LimitReport = 0 // a connection of a source above its limit is counted, and goes on
	LimitDrop   = 1 // it is dropped
	LimitReset  = 2 // it goes to the kernel, which answers RST: the client learns of it at once
)

// LimitWords are its words in the configuration, in the order of core/abi.def.
func LimitWords() []string {
	return []string{"report", "drop", "reset"}
}

// LimitNumber is the number of a word of the configuration, which has to be one of them.
func LimitNumber(word string) uint8 {
	switch word {
	case "report":
		return LimitReport
	case "drop":
		return LimitDrop
	case "reset":
		return LimitReset
	}
	panic("core/abi.def has no limit " + word)
}

// TG_MARK_... of core/abi.def.
const (
	MarkKeep  = 0 // a patrol leaves the codepoint of a neighbour that deploys Terminus
	MarkClear = 1 // it takes the codepoint off a legacy neighbour's packets
	MarkSet   = 2 // it sets the codepoint: sources are known to be true
)

// MarkWords are its words in the configuration, in the order of core/abi.def.
func MarkWords() []string {
	return []string{"terminus", "legacy", "true"}
}

// MarkNumber is the number of a word of the configuration, which has to be one of them.
func MarkNumber(word string) uint8 {
	switch word {
	case "terminus":
		return MarkKeep
	case "legacy":
		return MarkClear
	case "true":
		return MarkSet
	}
	panic("core/abi.def has no mark " + word)
}
