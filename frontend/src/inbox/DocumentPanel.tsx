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
  kind: 'suggestion' | 'failed';
  onDecided: () => void;
}

export function DocumentPanel({ documentId, kind, onDecided }: Props) {
  const document = useQuery(documentQuery(documentId));
  const canWrite = useCanWrite();
  if (document.data !== undefined && kind === 'failed')
    return <NotReady document={document.data} onDeleted={onDecided} />;
  return (
    <PageAndPanel documentId={documentId}>
      {document.data === undefined ? (
        <Loading />
      ) : (
        <div className="min-h-0 flex-1 overflow-y-auto p-4">
          <Suggestion document={document.data} canWrite={canWrite} hasFields onDecided={onDecided} />
        </div>
      )}
    </PageAndPanel>
  );
}
