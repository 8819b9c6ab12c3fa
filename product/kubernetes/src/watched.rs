//! The objects of one watch.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::runtime::watcher::Event;

/// The newest state of each object, reduced to the parts that are needed.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    objects: BTreeMap<String, T>,
    /// The objects of a list that is being read; the previous ones stay until it is complete.
    next: Option<BTreeMap<String, T>>,
    /// Whether a list was read completely.
    pub(crate) is_complete: bool,
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Watched { objects: BTreeMap::new(), next: None, is_complete: false }
    }
}

impl<T: PartialEq> Watched<T> {
    /// Applies an event. Returns whether the objects may have changed.
    pub(crate) fn hear<K: ResourceExt>(
        &mut self,
        event: Event<K>,
        reduce: impl FnOnce(K) -> T,
    ) -> bool {
        match event {
            Event::Apply(object) => {
                let (name, new) = (object.name_any(), reduce(object));
                let changed = self.objects.get(&name) != Some(&new);
                self.objects.insert(name, new);
                changed
            }
            Event::Delete(object) => self.objects.remove(&object.name_any()).is_some(),
            Event::Init => {
                self.next = Some(BTreeMap::new());
                false
            }
            Event::InitApply(object) => {
                let name = object.name_any();
                self.next.get_or_insert_default().insert(name, reduce(object));
                false
            }
            Event::InitDone => {
                self.objects = self.next.take().unwrap_or_default();
                self.is_complete = true;
                true
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.objects.get(name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.objects.values()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn pod(name: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod
    }

    // Objects that a new list lacks are gone, but only once the list is complete.
    #[test]
    fn a_list_replaces_the_objects_when_it_is_complete() {
        let mut watched = Watched::default();
        let mut hear = |event| watched.hear(event, |pod: Pod| pod.name_any());
        assert!(!hear(Event::Init));
        hear(Event::InitApply(pod("a")));
        assert!(!hear(Event::InitApply(pod("b"))));
        assert!(hear(Event::InitDone));
        assert!(hear(Event::Apply(pod("c"))) && !hear(Event::Apply(pod("c"))));
        assert!(hear(Event::Delete(pod("a"))) && !hear(Event::Delete(pod("a"))));
        hear(Event::Init);
        hear(Event::InitApply(pod("d")));
        assert_eq!(watched.all().collect::<Vec<_>>(), ["b", "c"]);
        watched.hear(Event::<Pod>::InitDone, |pod| pod.name_any());
        assert_eq!(watched.all().collect::<Vec<_>>(), ["d"]);
        assert_eq!(watched.get("d").map(String::as_str), Some("d"));
    }
}
