/** The parameters of a call that changes an extraction: it fails if the extraction has a newer version. */

export function atVersion(id: string, version: number) {
  return { path: { extraction_id: id }, header: { 'if-match': `"${version}"` } };
}
