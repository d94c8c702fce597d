//! What is known by watches, and what is not.

use super::Told;

#[test]
fn watch_knows_better_up_to_what_it_told_last() {
    let mut told = Told::default();
    assert!(!told.knows_better('a', 0), "it has told nothing");
    told.note('a', 5);
    told.note('a', 3);
    assert!(told.knows_better('a', 5) && told.knows_better('a', 4));
    assert!(!told.knows_better('a', 6));
    assert!(!told.knows_better('b', 1), "another kind");
}

#[test]
fn list_tells_nothing_before_its_end() {
    let mut told = Told::default();
    told.begin('a');
    told.note('a', 9);
    assert!(!told.knows_better('a', 7));
    told.end('a');
    assert!(told.knows_better('a', 9));
    // One that begins anew takes back nothing.
    told.begin('a');
    told.note('a', 4);
    assert!(told.knows_better('a', 9));
    told.end('a');
    assert!(told.knows_better('a', 9) && !told.knows_better('a', 10));
}
