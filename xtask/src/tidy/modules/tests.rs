//! Small crates, each with one way to import, and what the rule says of them.

use std::collections::BTreeMap;

use super::circles::Pair;
use super::exceptions::{Exceptions, pairs};
use super::tree::Tree;
use super::{arrows, find, imports, names};
use crate::tidy::finding::Finding;
use crate::tidy::text::Text;

/// The files of a crate in `a/src/`: name, text.
fn crate_of(files: &[(&str, &str)]) -> Vec<Text> {
    let file = |(name, text): &(&str, &str)| Text {
        path: format!("a/src/{name}"),
        text: (*text).to_owned(),
    };
    files.iter().map(file).collect()
}

/// Every arrow of a crate: "from -> to: names".
fn ties(files: &[(&str, &str)]) -> Vec<String> {
    let texts = crate_of(files);
    let (tree, findings) = Tree::build(&texts);
    assert_eq!(findings, []);
    let arrows: BTreeMap<_, _> = arrows::arrows(&tree);
    let arrow = |((from, to), arrow): (&(&str, &str), &arrows::Arrow)| {
        let names: Vec<_> = arrow.names.iter().map(String::as_str).collect();
        let name = |path: &str| path.trim_start_matches("a/src/").to_owned();
        format!("{} -> {}: {}", name(from), name(to), names.join(", "))
    };
    arrows.iter().map(arrow).collect()
}

/// The arrows of `user.rs`, which stands beside `leaf.rs` and the folder `deep/`.
fn taken(user: &str) -> Vec<String> {
    ties(&[
        ("lib.rs", "mod deep; mod leaf; mod user;"),
        (
            "leaf.rs",
            "pub struct One; pub struct Two; pub fn three() {}",
        ),
        (
            "deep.rs",
            "mod inner; pub mod kinds; pub use inner::Hidden; pub fn own() {}",
        ),
        (
            "deep/inner.rs",
            "pub struct Hidden; impl Hidden { pub fn new() {} }",
        ),
        ("deep/kinds.rs", "pub enum Kind { A, B }"),
        ("user.rs", user),
    ])
    .into_iter()
    .filter_map(|tie| tie.strip_prefix("user.rs -> ").map(str::to_owned))
    .collect()
}

#[test]
fn every_way_to_import_is_read() {
    for (user, expected) in [
        ("use crate::leaf::One;", "leaf.rs: One"),
        ("use super::leaf::{One, Two};", "leaf.rs: One, Two"),
        (
            "use crate::{leaf::{One as Eins, three}};",
            "leaf.rs: One, three",
        ),
        ("use crate::leaf::One as _;", "leaf.rs: One"),
        (
            "use crate::leaf; fn f() { leaf::three() }",
            "leaf.rs: three",
        ),
        (
            "use crate::leaf as blatt; type T = blatt::Two;",
            "leaf.rs: Two",
        ),
        (
            "use crate::leaf::{self, One}; fn f() { leaf::three() }",
            "leaf.rs: One, three",
        ),
        ("use crate::leaf;", "leaf.rs: leaf"),
        (
            "use super::leaf::*; fn f(_: One) { three() }",
            "leaf.rs: One, three",
        ),
        ("use super::leaf::*;", "leaf.rs: *"),
        ("fn f() { use super::leaf::One; }", "leaf.rs: One"),
        ("mod block { use super::super::leaf::One; }", "leaf.rs: One"),
        ("pub(crate) use crate::leaf::One;", "leaf.rs: One"),
    ] {
        assert_eq!(taken(user), [expected], "{user}");
    }
}

#[test]
fn paths_in_bodies_are_read_wherever_they_stand() {
    for (user, expected) in [
        ("fn f() -> crate::leaf::One { todo() }", "leaf.rs: One"),
        ("fn f(v: Vec<Option<super::leaf::Two>>) {}", "leaf.rs: Two"),
        ("impl super::leaf::One { fn f() {} }", "leaf.rs: One"),
        ("fn f() { g(crate::leaf::three()) }", "leaf.rs: three"),
        (
            "fn f() { println!(\"{}\", crate::leaf::three()) }",
            "leaf.rs: three",
        ),
        (
            "fn f(k: K) { matches!(k, crate::deep::kinds::Kind::A) }",
            "deep/kinds.rs: Kind",
        ),
        (
            "macro_rules! m { () => { $crate::leaf::three() } }",
            "leaf.rs: three",
        ),
        (
            "#[serde(with = \"crate::leaf::One\")] struct S;",
            "leaf.rs: One",
        ),
        ("#[derive(crate::leaf::One)] struct S;", "leaf.rs: One"),
    ] {
        assert_eq!(taken(user), [expected], "{user}");
    }
}

#[test]
fn a_name_is_followed_to_the_file_that_defines_it() {
    for (user, expected) in [
        ("use crate::deep::Hidden;", "deep/inner.rs: Hidden"),
        (
            "fn f() { crate::deep::Hidden::new() }",
            "deep/inner.rs: Hidden",
        ),
        (
            "use crate::deep; fn f(_: deep::Hidden) {}",
            "deep/inner.rs: Hidden",
        ),
        ("use crate::deep::kinds::Kind::A;", "deep/kinds.rs: Kind"),
        (
            "use crate::deep::kinds::Kind::*; fn f() { A }",
            "deep/kinds.rs: Kind",
        ),
        ("use crate::deep::own;", "deep.rs: own"),
        (
            "use crate::deep::made_by_a_macro;",
            "deep.rs: made_by_a_macro",
        ),
        (
            "use crate::deep::kinds; fn f() { kinds::Kind::A }",
            "deep/kinds.rs: Kind",
        ),
    ] {
        assert_eq!(taken(user), [expected], "{user}");
    }
}

#[test]
fn a_name_is_followed_through_stars_and_through_what_a_parent_imports() {
    let files = [
        ("lib.rs", "pub use far::*; mod far; mod near;"),
        ("far.rs", "pub use self::end::*; mod end;"),
        ("far/end.rs", "pub struct End;"),
        ("near.rs", "mod below; use crate::End; use serde::Value;"),
        ("near/below.rs", "use super::{End, Value};"),
    ];
    let expected = [
        "far.rs -> far/end.rs: *",
        "lib.rs -> far.rs: *",
        "near.rs -> far/end.rs: End",
        "near/below.rs -> far/end.rs: End",
        "near/below.rs -> near.rs: Value",
    ];
    assert_eq!(ties(&files), expected);
}

#[test]
fn what_is_of_other_crates_or_of_the_file_itself_ties_nothing() {
    for user in [
        "use std::fmt; use serde::{Serialize, de::Error};",
        "use ::leaf::One; fn f() { ::leaf::three() }",
        "fn f() { let leaf = 1; g(leaf); h!(x.leaf::<u8>, 'leaf, $leaf::one) }",
        "struct S; fn f() -> S { self::S }",
        "pub(in crate::leaf) struct S;",
        "/// See [`crate::leaf::One`].\nstruct S;",
        "const TEXT: &str = \"crate::leaf::One\";",
    ] {
        assert_eq!(taken(user), [""; 0], "{user}");
    }
}

#[test]
fn what_is_compiled_for_tests_alone_is_left_out() {
    for user in [
        "#[cfg(test)] mod tests { use crate::leaf::One; }",
        "#[cfg(test)] use crate::leaf::One;",
        "#[cfg(all(test, unix))] fn f() { crate::leaf::three() }",
        "struct S; impl S { #[cfg(test)] fn f() { crate::leaf::three() } }",
        "struct S { #[cfg(test)] one: crate::leaf::One }",
        "#![cfg(test)] use crate::leaf::One;",
    ] {
        assert_eq!(taken(user), [""; 0], "{user}");
    }
    for user in [
        "#[cfg(not(test))] use crate::leaf::One;",
        "#[cfg(any(test, feature = \"x\"))] use crate::leaf::One;",
    ] {
        assert_eq!(taken(user), ["leaf.rs: One"], "{user}");
    }
    let files = [
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
        ("a.rs", "use crate::b::B; #[cfg(test)] mod tests;"),
        ("a/tests.rs", "pub struct T;"),
        ("b.rs", "pub struct B; #[cfg(test)] use crate::a::tests::T;"),
        ("tests.rs", "use crate::{a, b};"),
    ];
    assert_eq!(ties(&files), ["a.rs -> b.rs: B"]);
}

/// Two modules in a circle, one of them a folder.
const CIRCLE: &[(&str, &str)] = &[
    ("main.rs", "mod a; mod b; mod c;"),
    (
        "a.rs",
        "//! A.\nuse crate::b::B;\nuse crate::c::C;\npub struct A;",
    ),
    ("b/mod.rs", "mod below;\npub struct B;"),
    ("b/below.rs", "use crate::a::A;\nuse crate::c::C;"),
    ("c.rs", "pub struct C;"),
];

fn found(files: &[(&str, &str)], exceptions: &[Pair<'_>]) -> Vec<Finding> {
    let texts = crate_of(files);
    let (tree, unread) = Tree::build(&texts);
    [unread, find(&tree, exceptions)].concat()
}

#[test]
fn modules_that_import_each_other_are_told_with_what_ties_them_and_how_to_except_it() {
    let found = found(CIRCLE, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].path.as_str(), found[0].line), ("a/src/a.rs", 2));
    let lines: Vec<_> = found[0].message.lines().map(str::trim).collect();
    let expected = [
        "modules of a/src/ import each other in a circle: a, b",
        "a/src/a.rs -> a/src/b/mod.rs: B",
        "a/src/b/below.rs -> a/src/a.rs: A",
        "move what both sides need to a leaf beside them. What cannot be mended now stands in \
         CIRCLES of xtask/src/tidy/modules/exceptions.rs:",
        "\"a/src/a.rs -> a/src/b/mod.rs\",",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_proposed_exceptions_leave_no_circle_and_are_all_needed() {
    for arrow in [
        ("a/src/a.rs", "a/src/b/mod.rs"),
        ("a/src/b/below.rs", "a/src/a.rs"),
    ] {
        assert_eq!(found(CIRCLE, &[(arrow.0, arrow.1)]), []);
    }
    // Only both arrows together break this one.
    let twice = [CIRCLE, &[("b/below/more.rs", "use crate::a::A;")]].concat();
    let twice: Vec<_> = twice
        .into_iter()
        .map(|(name, text)| match name {
            "b/below.rs" => (name, "mod more; use crate::a::A;"),
            "a.rs" => (
                name,
                "use crate::b::{B, below::Other, one, two}; pub struct A;",
            ),
            _ => (name, text),
        })
        .collect();
    let both = [
        ("a/src/b/below.rs", "a/src/a.rs"),
        ("a/src/b/below/more.rs", "a/src/a.rs"),
    ];
    assert_eq!(found(&twice, &both), []);
    assert_eq!(found(&twice, &both[..1]).len(), 1);
    assert_eq!(found(&twice, &both[1..]).len(), 1);
}

#[test]
fn a_circle_over_the_own_file_of_a_folder_is_one_of_files() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod part;\nuse part::run;\npub struct Options;"),
        (
            "a/part.rs",
            "use super::Options;\npub fn run(_: Options) {}",
        ),
    ];
    let found = found(&files, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    let message = &found[0].message;
    assert!(
        message.starts_with("files import each other in a circle: a/src/a.rs, a/src/a/part.rs")
    );
    assert!(message.contains("a/src/a/part.rs -> a/src/a.rs: Options"));
}

#[test]
fn siblings_are_compared_at_every_level_with_all_that_is_below_them() {
    let files = [
        ("lib.rs", "mod top;"),
        ("top.rs", "mod x; mod y;"),
        ("top/x.rs", "mod low; pub struct X;"),
        ("top/x/low.rs", "use crate::top::y::Y;"),
        ("top/y.rs", "mod low; pub struct Y;"),
        ("top/y/low.rs", "use crate::top::x::X;"),
    ];
    let found = found(&files, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    let first = found[0].message.lines().next();
    let expected = "modules of a/src/top/ import each other in a circle: x, y";
    assert_eq!(first, Some(expected));
}

#[test]
fn an_exception_that_closes_no_circle_any_more_is_found() {
    let gone = ("a/src/c.rs", "a/src/a.rs");
    let harmless = ("a/src/a.rs", "a/src/c.rs");
    let needed = ("a/src/a.rs", "a/src/b/mod.rs");
    let superfluous = ("a/src/b/below.rs", "a/src/a.rs");
    for exception in [gone, harmless, superfluous] {
        let found = found(CIRCLE, &[needed, exception]);
        assert_eq!(found.len(), 1, "{exception:?}: {found:?}");
        assert!(found[0].message.contains("it closes no circle any more"));
    }
}

#[test]
fn an_exception_is_written_as_one_line_under_its_reason() {
    let table: &Exceptions = &[
        ("why", &["a.rs -> b.rs", "b.rs -> c.rs"]),
        ("because", &["c.rs"]),
    ];
    let expected = [("a.rs", "b.rs"), ("b.rs", "c.rs"), ("c.rs", "")];
    assert_eq!(pairs(table), expected);
}

#[test]
fn a_file_that_is_no_rust_is_found() {
    let found = found(&[("lib.rs", "mod a;\nfn {")], &[]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].path.as_str(), found[0].line), ("a/src/lib.rs", 2));
}

/// What rule `rule` says of a crate with these exceptions.
fn told(
    rule: fn(&Tree<'_>, &[Pair<'_>]) -> Vec<Finding>,
    files: &[(&str, &str)],
    exceptions: &[Pair<'_>],
) -> Vec<String> {
    let texts = crate_of(files);
    let findings = rule(&Tree::build(&texts).0, exceptions);
    findings.iter().map(ToString::to_string).collect()
}

/// A folder that hands on what one of its files defines.
const DETOURS: &[(&str, &str)] = &[
    ("lib.rs", "mod far; mod near; pub use far::end::End;"),
    (
        "far.rs",
        "mod beside; pub mod end; pub use self::end::{End, other};",
    ),
    ("far/end.rs", "pub struct End; pub fn other() {}"),
    ("far/beside.rs", "use super::End;"),
    ("near.rs", "use crate::far::end::End;"),
];

/// The same with another text of `near.rs`.
fn near(text: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut files = DETOURS.to_vec();
    files.retain(|(name, _)| *name != "near.rs");
    files.push(("near.rs", text));
    files
}

#[test]
fn detours_of_imports_are_found_and_what_the_own_folder_imports_is_none() {
    assert_eq!(told(imports::find, DETOURS, &[]), [""; 0]);
    for (text, through) in [
        ("use crate::far::End;", "a/src/far.rs"),
        ("use crate::End;", "a/src/lib.rs"),
        ("use super::End;", "a/src/lib.rs"),
        ("fn f(_: crate::far::End) {}", "a/src/far.rs"),
        ("use crate::far; fn f(_: far::End) {}", "a/src/far.rs"),
    ] {
        let found = told(imports::find, &near(text), &[]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        let expected = format!("import End from a/src/far/end.rs, not through {through}. ");
        assert!(found[0].contains(&expected), "{text}: {found:?}");
        let exception = ("a/src/near.rs", through);
        assert_eq!(
            told(imports::find, &near(text), &[exception]),
            [""; 0],
            "{text}"
        );
    }
}

#[test]
fn what_is_another_crates_is_imported_from_there() {
    let mut files = near("use crate::far::Value;");
    files.retain(|(name, _)| *name != "far.rs");
    files.push((
        "far.rs",
        "mod beside; pub mod end; pub use self::end::End; pub use serde::Value;",
    ));
    let found = told(imports::find, &files, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("import Value from its own crate, not through a/src/far.rs. "));
}

#[test]
fn a_detour_that_is_gone_is_found_among_the_exceptions() {
    let found = told(imports::find, DETOURS, &[("a/src/near.rs", "a/src/lib.rs")]);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("it takes nothing that way any more"));
}

#[test]
fn everything_at_once_is_imported_from_other_crates_and_by_tests_alone() {
    let found = told(
        imports::find,
        &near("use super::*; use k8s_openapi::api::*;"),
        &[],
    );
    let expected = "a/src/near.rs:1: import names one by one, not `super::*`";
    assert_eq!(found, [expected]);
    for text in [
        "#[cfg(test)] mod tests { use super::*; }",
        "pub use crate::far::end::*;",
    ] {
        assert_eq!(told(imports::find, &near(text), &[]), [""; 0], "{text}");
    }
}

#[test]
fn refused_names_are_found_at_modules_types_and_public_functions() {
    for text in [
        "pub mod world {}",
        "struct World;",
        "pub enum LeftOver {}",
        "type Desk = u8;",
        "pub(crate) fn tell() {}",
        "struct S; impl S { pub fn look(&self) {} }",
        "trait T { fn repair(&self); }",
    ] {
        let found = told(names::find, &[("lib.rs", text)], &[]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(
            found[0].contains("is no name here, say "),
            "{text}: {found:?}"
        );
    }
    for text in [
        "fn tell() {} fn f() { let world = 1; }",
        "pub fn keep_alive() {} pub struct Workload; pub const LOOK: u8 = 1;",
        "struct S; impl T for S { fn repair(&self) {} }",
        "#[cfg(test)] mod tests { pub fn look() {} }",
    ] {
        assert_eq!(
            told(names::find, &[("lib.rs", text)], &[]),
            [""; 0],
            "{text}"
        );
    }
}

#[test]
fn a_name_that_is_gone_is_found_among_the_exceptions() {
    let world = ("a/src/lib.rs", "World");
    assert_eq!(
        told(names::find, &[("lib.rs", "struct World;")], &[world]),
        [""; 0]
    );
    let found = told(names::find, &[("lib.rs", "struct Cache;")], &[world]);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("there is no such name any more"));
}
