//! What is remembered of Machines, by their UIDs: it saves requests, or tells more.
//!
//! Invariant: whoever remembers nothing comes to the same end, so anything may be forgotten at any time; nothing is
//! remembered of what is asked to go or was proven gone.

use api::machine::MachineAddress;
use jiff::Timestamp;
use providers::by_uid::ByUid;

/// A virtual machine that was asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Begun {
    /// Where it is told what becomes of it.
    pub operation: String,
    /// When that was.
    pub at: Timestamp,
}

/// What is remembered.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    by_uid: ByUid<Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    begun: Option<Begun>,
    /// Of which virtual machine they are, by Azure's ID, which has them for as long as it is there.
    addresses: Option<(String, Vec<MachineAddress>)>,
}

impl Memory {
    /// Its virtual machine was asked for.
    pub fn begins(&mut self, uid: &str, begun: Begun) {
        self.by_uid.known(uid).begun = Some(begun);
    }

    /// When its virtual machine was asked for, and where it is told what becomes of that.
    #[must_use]
    pub fn begun(&self, uid: &str) -> Option<Begun> {
        self.by_uid.get(uid)?.begun.clone()
    }

    /// What became of that is known, or will never be.
    pub fn ends(&mut self, uid: &str) {
        if let Some(known) = self.by_uid.get_mut(uid) {
            known.begun = None;
        }
    }

    /// Its virtual machine has these addresses.
    pub fn has(&mut self, uid: &str, vm: &str, addresses: Vec<MachineAddress>) {
        self.by_uid.known(uid).addresses = Some((vm.to_owned(), addresses));
    }

    /// Addresses of its virtual machine; none where they are not known, or are those of another one.
    #[must_use]
    pub fn addresses(&self, uid: &str, vm: &str) -> Option<Vec<MachineAddress>> {
        let (of, addresses) = self.by_uid.get(uid)?.addresses.as_ref()?;
        (of == vm).then(|| addresses.clone())
    }

    /// Nobody asks for it any more.
    pub fn forgets(&mut self, uid: &str) {
        self.by_uid.forgets(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Vec<MachineAddress> {
        vec![MachineAddress {
            type_: "InternalIP".to_owned(),
            address: "10.1.0.4".to_owned(),
        }]
    }

    fn begun() -> Begun {
        Begun {
            operation: "/operations/1".to_owned(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn addresses_are_those_of_one_virtual_machine() {
        let mut memory = Memory::default();
        memory.has("u", "first", address());
        assert_eq!(memory.addresses("u", "first"), Some(address()));
        assert_eq!(memory.addresses("u", "second"), None);
        assert_eq!(memory.addresses("other", "first"), None);
    }

    #[test]
    fn what_ended_or_went_is_forgotten() {
        let mut memory = Memory::default();
        memory.begins("u", begun());
        memory.has("u", "vm", address());
        memory.ends("u");
        assert_eq!(memory.begun("u"), None);
        assert!(memory.addresses("u", "vm").is_some());
        memory.forgets("u");
        assert!(memory.by_uid.is_empty());
    }
}
