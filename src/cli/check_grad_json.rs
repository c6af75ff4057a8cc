//! What `check-grad` writes in JSON: all that was compared.

use super::json::list;
use dualvm::{Comparison, Counts, Engines, Estimate, GradientCheck, Json, JsonReal, PointCheck};
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// A check of derivatives.
pub(crate) struct Checked<'a>(pub(crate) &'a GradientCheck);

impl Serialize for Checked<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let found = self.0;
        let mut report = serializer.serialize_struct("Check", 7)?;
        report.serialize_field("verdict", &found.verdict().to_string())?;
        report.serialize_field("counts", &Counted(found.counts()))?;
        report.serialize_field("reals", &found.reals)?;
        report.serialize_field("checked", &found.checked)?;
        report.serialize_field("outputs", &found.outputs)?;
        report.serialize_field("native", &found.native)?;
        report.serialize_field("points", &Listed(&found.points, At))?;
        report.end()
    }
}

/// A list, and what its items are written as.
struct Listed<'a, T, Item>(&'a [T], fn(&'a T) -> Item);

impl<T, Item: Serialize> Serialize for Listed<'_, T, Item> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        list(serializer, self.0, self.1)
    }
}

struct At<'a>(&'a PointCheck);

impl Serialize for At<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let point = self.0;
        let (engines, place) = match &point.engines {
            Engines::Same => ("same", None),
            Engines::Differ(place) => ("differ", Some(place)),
            _ => ("no native code", None),
        };
        let mut report = serializer.serialize_struct("Point", 8)?;
        report.serialize_field("arguments", &Listed(&point.args, Json))?;
        report.serialize_field("value", &point.value.as_ref().map(Json))?;
        report.serialize_field("trap", &point.trap)?;
        report.serialize_field("not_finite", &point.not_finite)?;
        report.serialize_field("engines", engines)?;
        report.serialize_field("engines_differ_in", &place)?;
        report.serialize_field("counts", &Counted(point.counts()))?;
        report.serialize_field("comparisons", &Listed(&point.comparisons, Compared))?;
        report.end()
    }
}

struct Counted(Counts);

impl Serialize for Counted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Counts { agree, wrong, kinks, cannot_tell } = self.0;
        let mut counts = serializer.serialize_struct("Counts", 4)?;
        counts.serialize_field("agree", &agree)?;
        counts.serialize_field("wrong", &wrong)?;
        counts.serialize_field("kinks", &kinks)?;
        counts.serialize_field("cannot_tell", &cannot_tell)?;
        counts.end()
    }
}

struct Compared<'a>(&'a Comparison);

impl Serialize for Compared<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Comparison { quantity, reverse, forward, difference, one_sided, verdict, reason, trap, .. } = self.0;
        let [left, right] = one_sided;
        let mut report = serializer.serialize_struct("Comparison", 9)?;
        report.serialize_field("of", &quantity.to_string())?;
        report.serialize_field("reverse", &JsonReal(*reverse))?;
        report.serialize_field("forward", &forward.map(JsonReal))?;
        report.serialize_field("difference", &difference.map(Bar))?;
        report.serialize_field("from_left", &left.map(Bar))?;
        report.serialize_field("from_right", &right.map(Bar))?;
        report.serialize_field("verdict", &verdict.to_string())?;
        report.serialize_field("reason", &reason.to_string())?;
        report.serialize_field("trap", trap)?;
        report.end()
    }
}

struct Bar(Estimate);

impl Serialize for Bar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bar = serializer.serialize_struct("Estimate", 2)?;
        bar.serialize_field("value", &JsonReal(self.0.value))?;
        bar.serialize_field("error", &JsonReal(self.0.error))?;
        bar.end()
    }
}
