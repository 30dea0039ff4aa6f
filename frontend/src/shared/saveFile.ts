/** Saving a file that was fetched. */

export function saveFile(content: Blob, name: string): void {
  const link = document.createElement('a');
  // As plain bytes: the browser saves the file and never opens it here.
  link.href = URL.createObjectURL(new Blob([content], { type: 'application/octet-stream' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
