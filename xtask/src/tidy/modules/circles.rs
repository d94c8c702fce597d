//! Groups of files, and of modules that stand side by side, which take from each other in a circle.
//!
//! Invariant: arrows that are cut are in no circle, and the cuts that are proposed leave none.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::{has_path_connecting, tarjan_scc};
use petgraph::prelude::DiGraphMap;

use super::arrows::Arrows;
use super::tree::Tree;

/// From one file to another.
pub(super) type Pair<'a> = (&'a str, &'a str);

/// A circle.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Circle<'a> {
    /// The folder whose modules these are; `None` when these are files.
    pub(super) folder: Option<String>,
    pub(super) members: Vec<String>,
    /// What ties it.
    pub(super) arrows: Vec<Pair<'a>>,
    /// Those without which it would be none: as few as one looks for greedily.
    pub(super) cuts: Vec<Pair<'a>>,
}

/// What is in a circle with what, on one level: node to node, and the arrows of files between.
type Level<'a> = BTreeMap<(String, String), Vec<Pair<'a>>>;

/// Every circle that is left without the arrows of `cut`: first those of modules, level by level,
/// then those of files that would still be there if the former were mended.
pub(super) fn circles<'a>(
    tree: &Tree<'a>,
    arrows: &Arrows<'a>,
    cut: &BTreeSet<Pair<'_>>,
) -> Vec<Circle<'a>> {
    let mut left: Vec<_> = arrows
        .keys()
        .copied()
        .filter(|pair| !cut.contains(pair))
        .collect();
    let mut levels: BTreeMap<String, Level<'a>> = BTreeMap::new();
    for pair in &left {
        if let Some((folder, from, to)) = siblings(tree, *pair) {
            let level = levels.entry(folder).or_default();
            level.entry((from, to)).or_default().push(*pair);
        }
    }
    let mut circles = Vec::new();
    for (folder, level) in &levels {
        circles.extend(of_level(Some(folder), level, arrows));
    }
    left.retain(|pair| !circles.iter().any(|circle| circle.cuts.contains(pair)));
    let file = |pair: &Pair<'a>| ((pair.0.to_owned(), pair.1.to_owned()), vec![*pair]);
    circles.extend(of_level(None, &left.iter().map(file).collect(), arrows));
    circles
}

/// Whether an arrow is part of a circle, of modules or of files, that is left without those of `cut`.
pub(super) fn is_in_circle(
    tree: &Tree<'_>,
    arrows: &Arrows<'_>,
    cut: &BTreeSet<Pair<'_>>,
    pair: Pair<'_>,
) -> bool {
    let root = |file: &str| tree.places.get(file).map(|place| place.root);
    let left = arrows.keys().copied();
    let left = left.filter(|other| root(other.0) == root(pair.0) && !cut.contains(other));
    let left: Vec<Pair<'_>> = left.collect();
    if leads(left.iter().copied(), pair.1, pair.0) {
        return true;
    }
    let Some((folder, from, to)) = siblings(tree, pair) else {
        return false;
    };
    let level = left.iter().filter_map(|pair| siblings(tree, *pair));
    let level: Vec<_> = level.filter(|(other, ..)| *other == folder).collect();
    let modules = level
        .iter()
        .map(|(_, from, to)| (from.as_str(), to.as_str()));
    leads(modules, &to, &from)
}

/// The two modules of one folder that an arrow ties, each with all that is below it; none when one
/// of the files is that folder's own.
fn siblings(tree: &Tree<'_>, pair: Pair<'_>) -> Option<(String, String, String)> {
    let (from, to) = (tree.places.get(pair.0)?, tree.places.get(pair.1)?);
    let paths = || from.path.iter().zip(&to.path);
    let common = paths().take_while(|(a, b)| a == b).count();
    let (a, b) = paths().nth(common).filter(|_| from.root == to.root)?;
    let top = from.root.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = from.path[..common]
        .iter()
        .fold(top.to_owned(), |all, name| all + "/" + name);
    Some((folder, a.clone(), b.clone()))
}

fn of_level<'a>(folder: Option<&String>, level: &Level<'a>, all: &Arrows<'a>) -> Vec<Circle<'a>> {
    let pairs = level.keys().map(|(from, to)| (from.as_str(), to.as_str()));
    let found = components(pairs).into_iter().map(|members| {
        let inside = level
            .iter()
            .filter(|((from, to), _)| {
                members.contains(&from.as_str()) && members.contains(&to.as_str())
            })
            .map(|((from, to), files)| ((from.as_str(), to.as_str()), files));
        let inside: BTreeMap<_, _> = inside.collect();
        let cuts = cuts(&inside, all);
        Circle {
            folder: folder.cloned(),
            members: members.iter().map(|member| (*member).to_owned()).collect(),
            arrows: inside
                .values()
                .flat_map(|files| files.iter().copied())
                .collect(),
            cuts: cuts
                .iter()
                .flat_map(|cut| inside[cut].iter().copied())
                .collect(),
        }
    });
    found.collect()
}

/// Whether one node reaches another.
fn leads<'n>(pairs: impl Iterator<Item = Pair<'n>>, from: &'n str, to: &'n str) -> bool {
    let graph: DiGraphMap<&str, ()> = pairs.map(|(from, to)| (from, to, ())).collect();
    let is_there = graph.contains_node(from) && graph.contains_node(to);
    is_there && has_path_connecting(&graph, from, to, None)
}

/// The groups of more than one node of which each reaches each.
fn components<'n>(pairs: impl Iterator<Item = (&'n str, &'n str)>) -> Vec<Vec<&'n str>> {
    let graph: DiGraphMap<&str, ()> = pairs.map(|(from, to)| (from, to, ())).collect();
    let mut groups = tarjan_scc(&graph);
    groups.retain(|group| group.len() > 1);
    for group in &mut groups {
        group.sort_unstable();
    }
    groups.sort_unstable();
    groups
}

/// Arrows without which there is no circle: again and again the one that leaves the least of it, and
/// of those the one with the fewest names.
fn cuts<'n>(
    inside: &BTreeMap<(&'n str, &'n str), &Vec<Pair<'_>>>,
    all: &Arrows<'_>,
) -> Vec<(&'n str, &'n str)> {
    let mut left: BTreeSet<_> = inside.keys().copied().collect();
    let mut cuts = Vec::new();
    loop {
        let groups = components(left.iter().copied());
        let tied = |(from, to): &&(&str, &str)| {
            groups
                .iter()
                .any(|group| group.contains(from) && group.contains(to))
        };
        let cost = |cut: &&(&'n str, &'n str)| {
            let others = left.iter().copied().filter(|other| other != *cut);
            let groups = components(others);
            let rest: usize = groups.iter().map(|group| group.len() * group.len()).sum();
            let names = inside[*cut].iter().map(|pair| all[pair].names.len());
            (rest, inside[*cut].len(), names.sum::<usize>())
        };
        let Some(cut) = left.iter().filter(tied).min_by_key(cost).copied() else {
            return cuts;
        };
        left.remove(&cut);
        cuts.push(cut);
    }
}
