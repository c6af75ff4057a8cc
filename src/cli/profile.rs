//! What each loop and function has written to the tape, as a part of the statistics.

use dualvm::{Place, Profile, Site, SiteUsage};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::io::{self, Write};

/// Writes a table, sorted as the profile is.
pub(crate) fn table(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    if profile.sites.is_empty() {
        return Ok(());
    }
    writeln!(out, "by loop and function; the sweep in one thread, each record timed:")?;
    writeln!(out, "{:>12} {:>14} {:>12}", "records", "tape bytes", "sweep")?;
    for SiteUsage { site, records, tape_bytes, sweep, .. } in &profile.sites {
        let sweep = format!("{:.1} µs", 1e6 * sweep.as_secs_f64());
        writeln!(out, "{records:>12} {tape_bytes:>14} {sweep:>12}  {}", name(site))?;
    }
    Ok(())
}

fn name(site: &Site) -> String {
    let shown = |place: &Place| match &place.source {
        Some(place) => place.to_string(),
        None => format!("instruction {}", place.inst),
    };
    match site {
        Site::Loop { function, place } => format!("loop at {} in {function}", shown(place)),
        Site::Function { function, .. } => format!("{function}, outside of loops"),
        Site::Arrays => "arrays made of scattered reals".to_owned(),
        Site::Imports => "reals of other tasks".to_owned(),
        Site::Forks => "forks of tasks".to_owned(),
        Site::Reruns => "gradients in gradients and checkpoints".to_owned(),
        // The machine's next version may know more.
        _ => "other records".to_owned(),
    }
}

/// A line of the table, in JSON.
pub(crate) struct Usage<'a>(pub(crate) &'a SiteUsage);

impl Serialize for Usage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SiteUsage { site, records, tape_bytes, sweep, .. } = self.0;
        let (kind, code) = match site {
            Site::Loop { function, place } => ("loop", Some((function, place))),
            Site::Function { function, place } => ("function", Some((function, place))),
            Site::Arrays => ("arrays", None),
            Site::Imports => ("imports", None),
            Site::Forks => ("forks", None),
            Site::Reruns => ("reruns", None),
            _ => ("other", None),
        };
        let (function, place) = code.unzip();
        let source = place.and_then(|place| place.source.as_ref());
        let (line, column) = source.map(|place| (place.line, place.column)).unzip();
        let mut usage = serializer.serialize_struct("Usage", 9)?;
        usage.serialize_field("site", kind)?;
        usage.serialize_field("function", &function)?;
        usage.serialize_field("file", &source.map(|place| &*place.file))?;
        usage.serialize_field("line", &line)?;
        usage.serialize_field("column", &column)?;
        usage.serialize_field("instruction", &place.map(|place| place.inst))?;
        usage.serialize_field("records", records)?;
        usage.serialize_field("tape_bytes", tape_bytes)?;
        usage.serialize_field("sweep_seconds", &sweep.as_secs_f64())?;
        usage.end()
    }
}
