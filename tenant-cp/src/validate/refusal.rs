//! How it is said that a platform does not allow something.
//!
//! Invariant: the setting by which it may is always named.

/// The sentence that names what may be chosen, and the setting.
pub(super) fn not_allowed(asked: &str, allowed: &[String], setting: &str) -> String {
    let whoever = format!(
        "have whoever runs the management cluster allow it (config.{setting} of the chart)"
    );
    let way = match allowed.is_empty() {
        true => format!("remove it, or {whoever}"),
        false => format!("choose of {}, or {whoever}", allowed.join(", ")),
    };
    format!("\"{asked}\" is not allowed here: {way}")
}
