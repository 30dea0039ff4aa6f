/** A suggested schema with its values, or a file that could not be read. */

import { useQuery } from '@tanstack/react-query';
import { Loading } from '../components/ui/Loading';
import { NotReady } from '../document/NotReady';
import { Suggestion } from '../document/Suggestion';
import { documentQuery } from '../documents/documentQueries';
import { useCanWrite } from '../session/role';
import { PageAndPanel } from '../document/PageAndPanel';

interface Props {
  documentId: string;
  /** The documents with the same suggestion. Absent: the file could not be read. */
  alike: readonly string[] | undefined;
  onDecided: () => void;
}

export function DocumentPanel({ documentId, alike, onDecided }: Props) {
  const document = useQuery(documentQuery(documentId));
  const canWrite = useCanWrite();
  if (document.data !== undefined && alike === undefined)
    return <NotReady document={document.data} onDeleted={onDecided} />;
  return (
    <PageAndPanel documentId={documentId} isWide>
      {document.data === undefined ? (
        <Loading />
      ) : (
        <div className="min-h-0 flex-1 overflow-y-auto p-4">
          <Suggestion document={document.data} canWrite={canWrite} alike={alike} onDecided={onDecided} />
        </div>
      )}
    </PageAndPanel>
  );
}
