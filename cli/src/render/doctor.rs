//! Findings as text, the worst first.
//!
//! Invariant: what is wrong and what mends it stand together.

use insight::check::Check;
use insight::finding::{Finding, Level};
use jiff::Timestamp;

use super::Symbols;
use insight::age::since;

/// The findings, and how many of what. `made` is how many checks were made.
pub(crate) fn doctor(
    findings: &[Finding],
    made: usize,
    is_wide: bool,
    now: Timestamp,
    symbols: Symbols,
) -> String {
    let mut out = String::new();
    for finding in findings {
        out.push_str(&one(finding, is_wide, now, symbols));
    }
    let count = |level: Level| findings.iter().filter(|f| f.level == level).count();
    let told = [
        (count(Level::Error), "error", "errors"),
        (count(Level::Warning), "warning", "warnings"),
        (count(Level::Info), "note", "notes"),
        (count(Level::Skipped), "skipped", "skipped"),
    ];
    let told = told.map(|(count, one, many)| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    });
    let checks = if made == 1 { "check" } else { "checks" };
    out.push_str(&format!("{made} {checks}: {}\n", told.join(", ")));
    out
}

fn one(finding: &Finding, is_wide: bool, now: Timestamp, symbols: Symbols) -> String {
    let (id, subject) = (finding.check.id(), &finding.subject);
    let symbol = symbols.level(finding.level);
    let because = finding.because.map(|id| format!(" (because of {id})"));
    let because = because.unwrap_or_default();
    let age = finding.since.map(|at| format!(", for {}", since(at, now)));
    let age = age.unwrap_or_default();
    let mut out = format!(
        "{symbol} {id}  {subject}: {}{age}{because}\n",
        finding.cause
    );
    // What another one explains is mended there.
    if finding.level == Level::Skipped && !is_wide {
        return out;
    }
    let mut more = Vec::new();
    if is_wide {
        more.push(("usually", finding.likely.clone()));
    }
    more.push(("to mend it", finding.mend.clone()));
    if is_wide {
        more.push(("told by", finding.evidence.join("; ")));
        more.push(("more", finding.runbook.clone().unwrap_or_default()));
    }
    for (what, text) in more.into_iter().filter(|(_, text)| !text.is_empty()) {
        out.push_str(&format!("    {what}: {text}\n"));
    }
    out
}

/// All checks, for who names one that is not there.
pub(crate) fn ids() -> String {
    let all: Vec<_> = Check::ALL.iter().map(|check| check.id()).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use insight::diagnosis::diagnose;

    #[test]
    fn a_finding_is_told_with_what_mends_it() {
        let facts = fixture::facts();
        let findings = diagnose(&facts, |_| true);
        let told = doctor(&findings, 5, false, facts.now, Symbols::new(true));
        let mut lines = told.lines();
        let cause = "✗ addons  TenantCluster team-a/demo: coreDNS: 0 of 2 pods are ready, for 60m";
        assert_eq!(lines.next(), Some(cause), "{told}");
        let mend = lines.next().unwrap();
        assert!(mend.starts_with("    to mend it: See the addons"), "{told}");
        let last = "5 checks: 1 error, 1 warning, 0 notes, 0 skipped";
        assert_eq!(lines.last(), Some(last), "{told}");
    }

    #[test]
    fn where_nothing_is_wrong_it_is_one_line() {
        let told = doctor(&[], 37, false, Timestamp::UNIX_EPOCH, Symbols::new(true));
        assert_eq!(
            told,
            "37 checks: 0 errors, 0 warnings, 0 notes, 0 skipped\n"
        );
    }
}
