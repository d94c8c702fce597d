//! Rules on the modules of one crate: no circles (neither do the modules of one folder, each with all
//! below it, import each other in a loop, nor do files, a folder's own file included), no detours of
//! imports, no names of our own where the field has one.
//!
//! Invariant: an import ties to the file that defines the name. An exception that is not needed any
//! more is a finding, so the lists only get shorter.

mod arrows;
mod attributes;
mod circles;
mod exceptions;
mod imports;
mod names;
mod resolve;
mod tree;
mod written;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use self::arrows::Arrows;
use self::circles::{Circle, Pair};
use self::exceptions::{CIRCLES, PLACE, pairs};
use self::tree::Tree;
use super::finding::Finding;
use super::text::Text;

/// Everything that is wrong with modules.
pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    let (tree, unread) = Tree::build(texts);
    let circles = find(&tree, &pairs(CIRCLES));
    [unread, circles, imports::check(&tree), names::check(&tree)].concat()
}

/// Every circle, and every exception that is not needed.
fn find(tree: &Tree<'_>, exceptions: &[Pair<'_>]) -> Vec<Finding> {
    let arrows = arrows::arrows(tree);
    let cut = exceptions.iter().copied().collect();
    let circles = circles::circles(tree, &arrows, &cut);
    let mut findings: Vec<_> = circles
        .iter()
        .map(|circle| circular(circle, &arrows))
        .collect();
    findings.extend(unneeded(tree, &arrows, cut));
    findings
}

/// A circle, what ties it, and the lines that would make it an exception.
fn circular(circle: &Circle<'_>, arrows: &Arrows<'_>) -> Finding {
    let members = circle.members.join(", ");
    let mut message = match &circle.folder {
        Some(folder) => format!("modules of {folder}/ import each other in a circle: {members}"),
        None => format!("files import each other in a circle: {members}"),
    };
    // Writing to a String cannot fail.
    for pair in &circle.arrows {
        let names: Vec<_> = arrows[pair].names.iter().map(String::as_str).collect();
        let (from, to) = pair;
        let _ = write!(message, "\n    {from} -> {to}: {}", names.join(", "));
    }
    let _ = write!(
        message,
        "\n  move what both sides need to a leaf beside them. What cannot be mended now stands in \
         CIRCLES of {PLACE}:"
    );
    for (from, to) in &circle.cuts {
        let _ = write!(message, "\n    \"{from} -> {to}\",");
    }
    let first = circle.cuts.first();
    let line = first.map_or(0, |pair| arrows[pair].line);
    Finding {
        path: first.map_or(PLACE, |pair| pair.0).to_owned(),
        line,
        message,
    }
}

/// Exceptions without which there is no circle more. Those that are told can go all at once.
fn unneeded(tree: &Tree<'_>, arrows: &Arrows<'_>, mut cut: BTreeSet<Pair<'_>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (from, to) in cut.clone() {
        cut.remove(&(from, to));
        let occurs = arrows.contains_key(&(from, to));
        if occurs && circles::is_in_circle(tree, arrows, &cut, (from, to)) {
            cut.insert((from, to));
            continue;
        }
        findings.push(Finding {
            path: PLACE.to_owned(),
            line: 0,
            message: format!(
                "remove \"{from} -> {to}\" from CIRCLES: it closes no circle any more"
            ),
        });
    }
    findings
}
