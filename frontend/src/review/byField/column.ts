/** The field and document type to review. They are part of the address. */

export interface Column {
  path?: string;
  document_type?: string;
}

/** Parse the search parameters of an address; drop invalid ones. */
export function parseColumn({ path, document_type: type }: Record<string, unknown>): Column {
  return {
    ...(typeof path === 'string' && path !== '' && { path }),
    ...(typeof type === 'string' && type !== '' && { document_type: type }),
  };
}
