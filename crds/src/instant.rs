//! Moments as users write them: in UTC and to the second, so that all are of one length and compare as texts.
//!
//! Invariant: what has the form may still be no day of the calendar; [`read`] knows.

use k8s_openapi::jiff::Timestamp;

/// The CEL rule of the form.
pub(crate) const FORM: &str =
    "self.matches('^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z$')";

/// The moment; none where there is no such one.
#[must_use]
pub fn read(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}
