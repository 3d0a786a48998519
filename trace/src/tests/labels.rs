use crate::UnknownLabel;
use crate::rows::{Kind, Role};

/// The writer uses a value's discriminant as its key.
#[test]
fn keys_are_discriminants_and_texts_come_back() {
    for (key, kind) in Kind::ALL.iter().enumerate() {
        assert_eq!(*kind as usize, key);
        assert_eq!(kind.as_str().parse(), Ok(*kind));
    }
    for (key, role) in Role::ALL.iter().enumerate() {
        assert_eq!(*role as usize, key);
        assert_eq!(role.as_str().parse(), Ok(*role));
    }
    assert_eq!("mallox".parse::<Kind>(), Err(UnknownLabel("mallox".into())));
}
