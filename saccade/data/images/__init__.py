"""Images: readers of folders, tables, idx files and archives; decoding; augmentation."""
