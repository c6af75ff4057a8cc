//! Limits as flags.

use clap::Args;
use dualvm::{CompileLimits, Limits};
use std::time::Duration;

/// What a call may use; what isn't given is as in [`Limits::default`].
#[derive(Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitFlags {
    /// Instructions, in the forward run and in the sweep together [default: 10^15]
    #[arg(long, value_name = "N", value_parser = amount, allow_negative_numbers = true)]
    fuel: Option<u64>,
    /// Wall-clock time, of compiling the source and of the call [default: none]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    deadline: Option<Duration>,
    /// Bytes that heap and frames may hold at one time [default: 4Gi]
    #[arg(long, value_name = "BYTES", value_parser = amount, allow_negative_numbers = true)]
    max_heap: Option<u64>,
    /// Bytes that tape and adjoints may hold [default: 8Gi]
    #[arg(long, value_name = "BYTES", value_parser = amount, allow_negative_numbers = true)]
    max_tape: Option<u64>,
    /// Bytes that may be allocated, whether they stay in use or not [default: 2^63]
    #[arg(long, value_name = "BYTES", value_parser = amount, allow_negative_numbers = true)]
    max_alloc: Option<u64>,
    /// Calls that have not returned [default: 2M]
    #[arg(long, value_name = "N", value_parser = amount, allow_negative_numbers = true)]
    max_depth: Option<u64>,
    /// Time for compiling to native code; what would take longer stays interpreted [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    compile_time: Option<Duration>,
    /// Bytes of native code; what would take more stays interpreted [default: 256Mi]
    #[arg(long, value_name = "BYTES", value_parser = amount)]
    max_code: Option<u64>,
}

impl LimitFlags {
    /// What compiling the source may use.
    pub(crate) fn compile_limits(&self) -> CompileLimits {
        CompileLimits { deadline: self.deadline, ..CompileLimits::default() }
    }

    /// What the call may use.
    pub(crate) fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            fuel: self.fuel.unwrap_or(default.fuel),
            deadline: self.deadline.or(default.deadline),
            allocated_bytes: self.max_alloc.unwrap_or(default.allocated_bytes),
            live_bytes: self.max_heap.unwrap_or(default.live_bytes),
            tape_bytes: self.max_tape.unwrap_or(default.tape_bytes),
            depth: self.max_depth.map_or(default.depth, |depth| usize::try_from(depth).unwrap_or(usize::MAX)),
            compile_time: self.compile_time.unwrap_or(default.compile_time),
            code_bytes: self.max_code.unwrap_or(default.code_bytes),
        }
    }
}

/// Reads `1000`, `64k`, `2Gi`.
fn amount(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 9] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("", 1),
    ];
    let text = text.trim();
    let read = |(unit, factor): &(&str, u64)| {
        let digits = text.strip_suffix(unit)?;
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse::<u64>().ok()?.checked_mul(*factor))
    };
    match UNITS.iter().find_map(read) {
        Some(Some(amount)) => Ok(amount),
        Some(None) => Err("the number is too large".to_owned()),
        None => Err("expected a whole number, with one of the units k, M, G, T, Ki, Mi, Gi, Ti or none".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "expected a number of seconds, such as 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units_and_bounds() {
        assert_eq!(amount("0"), Ok(0));
        assert_eq!(amount("64k"), Ok(64_000));
        assert_eq!(amount("2Gi"), Ok(2 << 30));
        assert_eq!(amount("18446744073709551615"), Ok(u64::MAX));
        for bad in ["", "k", "-1", "+1", "1.5G", "1 k", "1g", "18446744073709551616", "99999999999T"] {
            assert!(amount(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn seconds_are_not_negative() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "-1", "nan", "inf", "1s"] {
            assert!(seconds(bad).is_err(), "{bad:?}");
        }
    }
}
